//! Names of programs, builtins and variables for reading command lines.

/// Programs that run others with more privileges: those cannot be judged when they are executed.
pub(in crate::exec::policy) const PRIVILEGED: [&str; 9] =
    ["doas", "machinectl", "pkexec", "run0", "runuser", "su", "sudo", "sudoedit", "systemd-run"];

pub(super) const SHELLS: [&str; 7] = ["ash", "bash", "dash", "ksh", "rbash", "sh", "zsh"];

/// Programs whose options name others to run.
pub(super) const REMOTE: [&str; 4] = ["rsync", "scp", "sftp", "ssh"];

/// Programs that run what their arguments or their input name. The list is incomplete: a word that is the name of a
/// restricted program is a doubt after every program.
pub(super) const RUNNERS: [&str; 77] = [
    "ash",
    "at",
    "awk",
    "bash",
    "batch",
    "builtin",
    "busybox",
    "bwrap",
    "chroot",
    "chrt",
    "command",
    "coproc",
    "dash",
    "env",
    "ex",
    "exec",
    "expect",
    "fakeroot",
    "find",
    "fish",
    "flock",
    "gdb",
    "ionice",
    "ksh",
    "ltrace",
    "nice",
    "node",
    "nohup",
    "nsenter",
    "parallel",
    "pausewatch",
    "perf",
    "perl",
    "python",
    "python3",
    "ruby",
    "screen",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "sh",
    "stdbuf",
    "strace",
    "taskset",
    "time",
    "timeout",
    "tmux",
    "toybox",
    "unshare",
    "watch",
    "xargs",
    "zsh",
    "capsh",
    "cgexec",
    "choom",
    "chronic",
    "dbus-run-session",
    "faketime",
    "linux32",
    "linux64",
    "newgrp",
    "numactl",
    "nvim",
    "prlimit",
    "rbash",
    "rlwrap",
    "runcon",
    "sg",
    "socat",
    "ssh-agent",
    "start-stop-daemon",
    "uclampset",
    "unbuffer",
    "valgrind",
    "vim",
    "xvfb-run",
];

/// Builtins that evaluate text, or change what the commands after them are.
pub(super) const EVALUATING: [&str; 29] = [
    ".",
    "alias",
    "bind",
    "compgen",
    "complete",
    "declare",
    "enable",
    "eval",
    "export",
    "fc",
    "getopts",
    "hash",
    "jobs",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "set",
    "shopt",
    "source",
    "test",
    "trap",
    "typeset",
    "unset",
    "wait",
    "[",
];

/// Variables that change at most the look of a program's output. `LANGUAGE` is not one of them: it can make a program
/// load translated texts, with their formats, from any directory.
pub(super) const HARMLESS_VARIABLES: [&str; 12] = [
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "FORCE_COLOR",
    "LANG",
    "LINES",
    "NO_COLOR",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
];

/// Words of the shell's grammar that stand before a command.
pub(super) const BEFORE_COMMANDS: [&str; 11] =
    ["{", "}", "do", "done", "elif", "else", "fi", "if", "then", "until", "while"];
/// Words of the shell's grammar behind which no command is read.
pub(super) const UNREAD: [&str; 8] = ["[[", "]]", "case", "coproc", "esac", "function", "in", "select"];
