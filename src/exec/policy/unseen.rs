//! Programs that can make something run that is not seen when programs are judged at their execution.
use super::shell::{Line, Word};

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

/// Whether the line names a program that may run something outside, where nothing is judged.
pub(super) fn delegates(line: &Line) -> bool {
    let texts = line.commands.iter().flatten().map(|word| match word {
        Word::Text(text) | Word::One(text) | Word::Many(text) => text,
    });
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut names = texts.chain([&line.unread]).flat_map(|text| text.split(|c| !is_part(c)));
    names.any(|name| DELEGATING.contains(&name))
}
