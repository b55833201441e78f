// Executes a program in a session and a terminal of its own, and types Ctrl-C when the file `started` is there.
#include <pty.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (count < 2) return 2;
    int terminal;
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    if (child < 0) {
        perror("forkpty");
        return 2;
    }
    if (child == 0) {
        execvp(arguments[1], arguments + 1);
        perror("execvp");
        _exit(126);
    }
    while (access("started", F_OK) != 0) usleep(10000);
    if (write(terminal, "\x03", 1) != 1) perror("write");
    int status;
    if (waitpid(child, &status, 0) != child) perror("waitpid");
    if (WIFSIGNALED(status)) printf("ended by signal %d\n", WTERMSIG(status));
    else printf("ended with %d\n", WEXITSTATUS(status));
    return 0;
}
