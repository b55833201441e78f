//! The installed version of Claude Code, for the message about an unexpected event.
use std::{
    env,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// The version that this program was tested with.
pub(super) const TESTED: &str = "2.1.330";
/// The maximum time to wait for the answer of the installed program.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The version of the `claude` in the PATH; `None` if there is none, or it does not answer.
pub(super) fn installed() -> Option<String> {
    let mut command = Command::new("claude");
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).current_dir(env::temp_dir());
    let (sender, answer) = mpsc::channel();
    // If the program hangs, this process ends first.
    thread::spawn(move || sender.send(command.output().ok()));
    let text = String::from_utf8(answer.recv_timeout(ANSWER_TIMEOUT).ok()??.stdout).ok()?;
    // "2.1.330 (Claude Code)"
    let version = text.split_whitespace().next()?;
    let is_version =
        |text: &str| text.len() < 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || ".-+".contains(c));
    is_version(version).then(|| version.to_owned())
}
