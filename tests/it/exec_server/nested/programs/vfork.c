// Executes a program twenty times with vfork, whose child shares the memory of its parent.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    (void)argc;
    char guard[8192];
    memset(guard, 0x5a, sizeof guard);
    int ran = 0;
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t child = vfork();
        if (child == 0) {
            execv(argv[1], argv + 1);
            _exit(127);
        }
        waitpid(child, &status, 0);
        ran += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    for (unsigned i = 0; i < sizeof guard; i++)
        if (guard[i] != 0x5a) {
            puts("the memory was changed");
            return 1;
        }
    printf("%d of 20 ran\n", ran);
    return ran == 20 ? 0 : 1;
}
