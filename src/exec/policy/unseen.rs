//! What is not seen when programs are judged as they are executed.
use super::shell::{Line, Word};

/// Commands of bash that it runs itself: nothing is executed.
const BUILTINS: [&str; 62] = [
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];
/// Programs that ask a program outside the command to run something.
const DELEGATING: [&str; 18] = [
    "abduco",
    "at",
    "batch",
    "busctl",
    "crontab",
    "dbus-send",
    "docker",
    "dtach",
    "gdbus",
    "machinectl",
    "pkexec",
    "podman",
    "run0",
    "screen",
    "ssh",
    "systemctl",
    "systemd-run",
    "tmux",
];

/// Whether no `execve` shows that a command of this name runs.
pub(super) fn is_builtin(name: &str) -> bool {
    BUILTINS.contains(&name)
}

/// Whether the line names a program that may run something outside, where nothing is judged.
pub(super) fn delegates(line: &Line) -> bool {
    let texts = line.commands.iter().flatten().map(|word| match word {
        Word::Text(text) | Word::One(text) | Word::Many(text) => text,
    });
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut names = texts.chain([&line.unread]).flat_map(|text| text.split(|c| !is_part(c)));
    names.any(|name| DELEGATING.contains(&name))
}
