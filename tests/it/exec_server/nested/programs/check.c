// Asks the kernel whether a program may be executed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv, char **environment) {
    (void)argc;
    const int check = 0x10000; // AT_EXECVE_CHECK
    long result = syscall(SYS_execveat, AT_FDCWD, argv[1], argv + 1, environment, check);
    puts(result == 0 ? "may be executed" : strerror(errno));
    return 0;
}
