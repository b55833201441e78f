// Counts how often it gets a signal, until SIGTERM: creates the file `ready-N`, and for each signal `caught-N`.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void create(const char *prefix, int number) {
    char name[32];
    snprintf(name, sizeof name, "%s-%d", prefix, number);
    close(open(name, O_CREAT | O_WRONLY, 0600));
}

int main(int argc, char **argv) {
    (void)argc;
    int number = atoi(argv[1]), caught = 0, count = 0;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, number);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    create("ready", number);
    while (sigwait(&signals, &caught) == 0 && caught != SIGTERM) {
        count++;
        create("caught", number);
    }
    printf("%d %d\n", number, count);
    return 0;
}
