// Executes a program several times with posix_spawn, while other threads keep changing memory.
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;
static atomic_int changed;

static void *work(void *unused) {
    (void)unused;
    for (;;) {
        char bytes[512];
        memset(bytes, 7, sizeof bytes);
        for (unsigned i = 0; i < sizeof bytes; i++)
            if (bytes[i] != 7) changed = 1;
    }
}

int main(int argc, char **argv) {
    (void)argc;
    pthread_t thread;
    for (int i = 0; i < 3; i++) pthread_create(&thread, 0, work, 0);
    int times = atoi(argv[1]), ran = 0;
    for (int i = 0; i < times; i++) {
        pid_t child;
        int status;
        if (posix_spawnp(&child, argv[2], 0, 0, argv + 2, environ) != 0) continue;
        waitpid(child, &status, 0);
        ran += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    if (changed) puts("the memory was changed");
    printf("%d of %d ran\n", ran, times);
    return ran == times ? 0 : 1;
}
