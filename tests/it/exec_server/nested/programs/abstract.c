/* Connects to the abstract socket with this name; with a second argument, to one of its own. */
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int main(int count, char **words) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path + 1, words[1], sizeof address.sun_path - 2);
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(words[1]);
    if (count > 2) {
        int listener = socket(AF_UNIX, SOCK_STREAM, 0);
        if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0)
            return 2;
    }
    return connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, length) != 0;
}
