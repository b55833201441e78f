// Executes a program in a process that another one traces ("traced"), or that other processes cannot read ("undumpable").
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    (void)argc;
    if (!strcmp(argv[1], "undumpable")) {
        prctl(PR_SET_DUMPABLE, 0);
        execvp(argv[2], argv + 2);
        perror("execvp");
        return 126;
    }
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execvp(argv[2], argv + 2);
        perror("execvp");
        _exit(126);
    }
    int status;
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status))
        ptrace(PTRACE_CONT, child, 0, WSTOPSIG(status) == 5 ? 0 : WSTOPSIG(status));
    return WEXITSTATUS(status);
}
