// Renames its file, and then executes itself: itself NAME
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc == 1) {
        puts("ran as another");
        return 0;
    }
    if (rename(argv[0], argv[1]) != 0) perror("rename");
    execl("/proc/self/exe", "itself", (char *)0);
    perror("execl");
    return 1;
}
