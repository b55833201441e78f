//! Programs that run others, and their options.
use super::options::Options;

/// A program that runs the command after its options and some operands.
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    pub(super) options: Options,
    pub(super) operands: usize,
    /// `NAME=value` may stand before the command.
    pub(super) assignments: bool,
}

const fn wrapper(name: &'static str, options: Options, operands: usize) -> Wrapper {
    Wrapper { name, options, operands, assignments: false }
}

/// Those whose options are known.
pub(super) const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        name: "env",
        options: Options {
            flags: "i0v",
            values: "uC",
            long_flags: &["ignore-environment", "null", "debug"],
            long_values: &["unset", "chdir"],
        },
        operands: 0,
        assignments: true,
    },
    Wrapper {
        name: "sudo",
        options: Options {
            flags: "nSEHkKbABP",
            values: "ugUhpCTRDrt",
            long_flags: &[
                "non-interactive",
                "stdin",
                "preserve-env",
                "set-home",
                "reset-timestamp",
                "background",
                "askpass",
            ],
            long_values: &["user", "group", "host", "prompt", "chdir", "chroot"],
        },
        operands: 0,
        assignments: true,
    },
    Wrapper { name: "doas", options: Options::short("nL", "uC"), operands: 0, assignments: false },
    wrapper("command", Options::short("pvV", ""), 0),
    wrapper("builtin", Options::short("", ""), 0),
    wrapper("exec", Options::short("cl", "a"), 0),
    wrapper("nohup", Options::short("", ""), 0),
    wrapper("setsid", Options { flags: "cfw", values: "", long_flags: &["ctty", "fork", "wait"], long_values: &[] }, 0),
    wrapper("nice", Options { flags: "0123456789", values: "n", long_flags: &[], long_values: &["adjustment"] }, 0),
    wrapper(
        "ionice",
        Options { flags: "t", values: "cn", long_flags: &["ignore"], long_values: &["class", "classdata"] },
        0,
    ),
    wrapper(
        "stdbuf",
        Options { flags: "", values: "ioe", long_flags: &[], long_values: &["input", "output", "error"] },
        0,
    ),
    wrapper(
        "timeout",
        Options {
            flags: "fpv",
            values: "ks",
            long_flags: &["foreground", "preserve-status", "verbose"],
            long_values: &["kill-after", "signal"],
        },
        1,
    ),
    // The keyword, too: it may stand before assignments.
    Wrapper {
        name: "time",
        options: Options {
            flags: "apqv",
            values: "fo",
            long_flags: &["append", "portability", "quiet", "verbose"],
            long_values: &["format", "output"],
        },
        operands: 0,
        assignments: true,
    },
    wrapper("busybox", Options::short("", ""), 0),
    wrapper("toybox", Options::short("", ""), 0),
];

/// Programs that run their arguments, or a part of them, in ways that are not followed here.
pub(super) const NOT_FOLLOWED: &[&str] = &[
    "parallel",
    "watch",
    "script",
    "su",
    "runuser",
    "flock",
    "strace",
    "ltrace",
    "unshare",
    "nsenter",
    "chroot",
    "systemd-run",
    "at",
    "batch",
    "taskset",
    "chrt",
    "setarch",
    "linux32",
    "linux64",
    "gdb",
    "valgrind",
    "perf",
    "entr",
    "fakeroot",
    "proot",
    "bwrap",
    "firejail",
    "unbuffer",
    "expect",
    "pkexec",
    "run0",
    "sg",
    "start-stop-daemon",
    "tini",
    "dumb-init",
    "gosu",
    "su-exec",
    "setpriv",
    "capsh",
    "prlimit",
    "numactl",
    "coproc",
    "dbus-run-session",
    "xvfb-run",
    "caffeinate",
    "rlwrap",
    "chpst",
    "cgexec",
];
/// Shells whose scripts are read.
pub(super) const SHELLS: &[&str] = &["bash", "rbash", "sh", "dash", "ash"];
/// Shells whose scripts are not: they have grammars of their own.
pub(super) const OTHER_SHELLS: &[&str] =
    &["zsh", "ksh", "mksh", "ksh93", "fish", "csh", "tcsh", "elvish", "nu", "pwsh", "xonsh", "yash"];
