// A thread other than the first executes a program, while another waits.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static char **arguments;

static void *execute(void *unused) {
    (void)unused;
    execvp(arguments[1], arguments + 1);
    perror("execvp");
    _exit(126);
}

static void *wait_forever(void *unused) {
    (void)unused;
    for (;;) pause();
}

int main(int argc, char **argv) {
    (void)argc;
    arguments = argv;
    pthread_t waiting, executing;
    pthread_create(&waiting, 0, wait_forever, 0);
    pthread_create(&executing, 0, execute, 0);
    pthread_join(executing, 0);
    return 3;
}
