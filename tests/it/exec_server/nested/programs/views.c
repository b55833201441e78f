// Executes a program after it has changed which file its path names, in one of several ways.
// views HOW OF ONTO PROGRAM [ARGUMENT...]
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPEN_TREE_CLONE_ 1
#define OPEN_TREE_RECURSIVE_ 0x8000
#define MOVE_MOUNT_F_EMPTY_PATH_ 4

static void check(const char *what, long result) {
    if (result >= 0) return;
    perror(what);
    exit(99);
}

// The parent ends in the same way as its child.
static void continue_in(long child) {
    int status;
    check("clone", child);
    if (child == 0) return;
    check("waitpid", waitpid(child, &status, 0));
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
}

static void enter(const char *process, const char *namespace) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/ns/%s", process, namespace);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    check(path, fd);
    check("setns", setns(fd, 0));
}

static long clone3_(uint64_t flags) {
    struct clone_args arguments;
    memset(&arguments, 0, sizeof arguments);
    arguments.flags = flags;
    arguments.exit_signal = SIGCHLD;
    return syscall(SYS_clone3, &arguments, sizeof arguments);
}

static void bind(const char *of, const char *onto) {
    check("mount", mount(of, onto, 0, MS_BIND | MS_REC, 0));
}

int main(int argc, char **argv) {
    if (argc < 5) return 97;
    const char *how = argv[1], *of = argv[2], *onto = argv[3];
    if (strcmp(how, "unshare") == 0) {
        check("unshare", unshare(CLONE_NEWUSER | CLONE_NEWNS));
        bind(of, onto);
    } else if (strcmp(how, "clone") == 0) {
        continue_in(syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0));
        bind(of, onto);
    } else if (strcmp(how, "clone3") == 0) {
        continue_in(clone3_(CLONE_NEWUSER | CLONE_NEWNS));
        bind(of, onto);
    } else if (strcmp(how, "move_mount") == 0) {
        continue_in(clone3_(CLONE_NEWUSER | CLONE_NEWNS));
        int tree = syscall(SYS_open_tree, AT_FDCWD, of, OPEN_TREE_CLONE_ | OPEN_TREE_RECURSIVE_);
        check("open_tree", tree);
        check("move_mount", syscall(SYS_move_mount, tree, "", AT_FDCWD, onto, MOVE_MOUNT_F_EMPTY_PATH_));
    } else if (strcmp(how, "chroot") == 0) {
        check("unshare", unshare(CLONE_NEWUSER));
        check("chroot", chroot(onto));
    } else if (strcmp(how, "umount") == 0) {
        continue_in(clone3_(CLONE_NEWNS));
        check("umount", umount2(onto, MNT_DETACH));
    } else if (strcmp(how, "wait") == 0) {
        // Meanwhile, the mounts of its parent's namespace change.
        continue_in(clone3_(CLONE_NEWNS));
        close(open(of, O_CREAT | O_WRONLY, 0600));
        while (access(onto, F_OK) != 0) usleep(1000);
    } else {
        // The process whose namespaces are entered.
        enter(how, "user");
        enter(how, "mnt");
    }
    execv(argv[4], argv + 4);
    perror(argv[4]);
    return 126;
}
