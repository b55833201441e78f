// Executes a program after it has set a timer of a second.
#include <stdio.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (count < 2) return 2;
    alarm(1);
    execvp(arguments[1], arguments + 1);
    perror("execvp");
    return 126;
}
