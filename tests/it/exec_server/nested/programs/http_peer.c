/* Sends standard input to an HTTP server at 127.0.0.1 and prints the first line of the response.
 * usage: http_peer mptcp PORT       over MPTCP
 *        http_peer receive SOCKET   over a connection that is received, as a descriptor, from a Unix socket at a path */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

static void fail(const char *what) {
    perror(what);
    exit(3);
}

static int connected(const char *port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(port)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int server = socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
    if (server < 0) fail("MPTCP");
    if (connect(server, (struct sockaddr *)&to, sizeof to) < 0) fail("connect");
    return server;
}

static int received(const char *path) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strncpy(to.sun_path, path, sizeof to.sun_path - 1);
    int sender = socket(AF_UNIX, SOCK_STREAM, 0);
    if (sender < 0 || connect(sender, (struct sockaddr *)&to, sizeof to) < 0) fail("connect");
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(sender, &message, 0) < 1 || !CMSG_FIRSTHDR(&message)) fail("recvmsg");
    int server;
    memcpy(&server, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof server);
    return server;
}

int main(int count, char **words) {
    if (count != 3) return 2;
    int server = strcmp(words[1], "mptcp") ? received(words[2]) : connected(words[2]);
    char buffer[65536];
    ssize_t length = 0, part;
    while ((part = read(0, buffer + length, sizeof buffer - length)) > 0) length += part;
    if (write(server, buffer, length) != length) fail("write");
    FILE *response = fdopen(server, "r");
    if (!response || !fgets(buffer, sizeof buffer, response)) fail("response");
    fputs(buffer, stdout);
    return 0;
}
