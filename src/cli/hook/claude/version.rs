//! Which Claude Code is installed, for the message about an event that is not as expected.
use std::{
    env,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// The version that this program was tested with.
pub(super) const TESTED: &str = "2.1.330";
/// How long the installed one has to say its version.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The version of the `claude` in the PATH; `None` if there is none, or it does not answer.
pub(super) fn installed() -> Option<String> {
    let mut command = Command::new("claude");
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).current_dir(env::temp_dir());
    let (sender, answer) = mpsc::channel();
    // If it hangs, this process ends before.
    thread::spawn(move || sender.send(command.output().ok()));
    let text = String::from_utf8(answer.recv_timeout(ANSWER_TIMEOUT).ok()??.stdout).ok()?;
    // "2.1.330 (Claude Code)"
    let version = text.split_whitespace().next()?;
    let is_version =
        |text: &str| text.len() < 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || ".-+".contains(c));
    is_version(version).then(|| version.to_owned())
}
