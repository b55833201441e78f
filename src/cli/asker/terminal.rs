//! Asks at the terminal, as ssh itself does: an answer that is a secret is not shown.
//!
//! 1. The terminal shows input again when this ends, also by a signal.
//! 2. Input is hidden while this asks. A shell sets its own terminal modes while its job is stopped (Ctrl-Z), so the
//!    modes are set again when the job continues (CONT). At the stop itself nothing is done: the shell waits only for
//!    the parent of this process, and may have the terminal back already.
//! 3. The prompt is printed only when input is hidden, and again when the job continues: what was typed before is
//!    discarded. A stop before the prompt, in the background, does not print it twice.
use crate::cli::{exit, failure::say, output};
use crate::exec::supervise::{ExitAction, Signal, SignalListener};
use futures_util::FutureExt;
use nix::unistd;
use rustix::{
    process::Signal as SystemSignal,
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr},
};
use std::{
    env,
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    process::ExitCode,
};
use tokio::task::yield_now;

const TERMINAL: &str = "/dev/tty";
const ENDING: [SystemSignal; 4] = [SystemSignal::INT, SystemSignal::TERM, SystemSignal::HUP, SystemSignal::QUIT];

/// Whether this process has a terminal.
pub(super) fn exists() -> bool {
    open().is_ok()
}

fn open() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(TERMINAL)
}

/// Prints the prompt on the terminal, and the answer on standard output. With `SSH_ASKPASS_PROMPT=confirm`, the exit code
/// is the answer.
pub(super) fn ask(prompt: &str) -> ExitCode {
    let kind = env::var("SSH_ASKPASS_PROMPT").unwrap_or_default();
    match try_to_ask(prompt, &kind) {
        Ok(Answer::Line(answer)) if kind == "confirm" => {
            let yes = [&b""[..], b"y", b"yes"].contains(&answer.trim_ascii().to_ascii_lowercase().as_slice());
            ExitCode::from(if yes { 0 } else { exit::FAILED })
        }
        Ok(Answer::Line(answer)) => match output::print(&[&answer[..], b"\n"].concat()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => fail(&why.to_string()),
        },
        Ok(Answer::Nothing) => ExitCode::from(exit::FAILED),
        Ok(Answer::Ended(signal)) => ExitAction::Die { signal, dumped_core: false }.carry_out(),
        Err(error) => fail(&format!("ask at the terminal: {error}")),
    }
}

enum Answer {
    /// Bytes: a passphrase may be in any encoding.
    Line(Vec<u8>),
    /// The end of input.
    Nothing,
    Ended(Signal),
}

fn try_to_ask(prompt: &str, kind: &str) -> io::Result<Answer> {
    let mut terminal = open()?;
    let runtime = crate::cli::runtime::start()?;
    let result = runtime.block_on(async {
        let mut listener = SignalListener::catching(&[SystemSignal::CONT], &ENDING)?;
        let hidden = match is_secret(prompt, kind) {
            false => {
                // In the background, this stops the process before the prompt, not after it.
                tcsetattr(&terminal, OptionalActions::Now, &tcgetattr(&terminal)?)?;
                None
            }
            true => Some(Hidden::start(terminal.try_clone()?)?),
        };
        // The signal that continued it then may still be on its way through the runtime.
        yield_now().await;
        while let Some(signal) = listener.recv().now_or_never() {
            if signal != Signal::CONT {
                return Ok(Answer::Ended(signal));
            }
        }
        let prompt = shown(prompt);
        terminal.write_all(prompt.as_bytes())?;
        let from = terminal.try_clone()?;
        let mut reading = tokio::task::spawn_blocking(move || {
            let mut line = Vec::new();
            BufReader::new(from).read_until(b'\n', &mut line).map(|length| (length > 0).then_some(line))
        });
        loop {
            let signal = tokio::select! {
                read = &mut reading => return Ok(match read.map_err(io::Error::other)?? {
                    Some(line) => Answer::Line(without_end(line)),
                    None => Answer::Nothing,
                }),
                signal = listener.recv() => signal,
            };
            if signal != Signal::CONT {
                return Ok(Answer::Ended(signal));
            }
            // In the background, the read stops this process again until it is in the foreground.
            if unistd::tcgetpgrp(&terminal) == Ok(unistd::getpgrp()) {
                hidden.as_ref().map_or(Ok(()), Hidden::hide)?;
                terminal.write_all(prompt.as_bytes())?;
            }
        }
    });
    runtime.shutdown_background();
    result
}

/// Whether the answer is hidden: all answers except names, confirmations, and the answers to ssh's questions about the key of
/// a host, which come without `SSH_ASKPASS_PROMPT`.
fn is_secret(prompt: &str, kind: &str) -> bool {
    let last = prompt.trim_end().rsplit('\n').next().unwrap_or_default();
    let is_about_host = ["(yes/no)?", "(yes/no/[fingerprint])?", "(yes/no):"].iter().any(|end| last.ends_with(end))
        || ["Please type 'yes'", "Please enter \"yes\""].iter().any(|begin| last.starts_with(begin));
    kind != "confirm" && !prompt.starts_with("Username") && !is_about_host
}

/// The prompt in its lines, without what would change the terminal.
fn shown(prompt: &str) -> String {
    let lines = prompt.split('\n').map(|line| crate::escape::escaped(line.trim_end_matches('\r')));
    lines.collect::<Vec<_>>().join("\n")
}

fn without_end(mut line: Vec<u8>) -> Vec<u8> {
    while let Some(b'\n' | b'\r') = line.last() {
        line.pop();
    }
    line
}

/// A terminal that does not show input until this is dropped.
struct Hidden {
    terminal: File,
    before: Termios,
}

impl Hidden {
    fn start(terminal: File) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let started = Self { terminal, before };
        started.hide()?;
        Ok(started)
    }

    fn hide(&self) -> io::Result<()> {
        let mut hidden = self.before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        Ok(tcsetattr(&self.terminal, OptionalActions::Flush, &hidden)?)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
        let _ = self.terminal.write_all(b"\n");
    }
}

fn fail(why: &str) -> ExitCode {
    say("askpass", why);
    ExitCode::from(exit::FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_other_answers_are_shown() {
        let host = "The authenticity of host 'h (192.0.2.1)' can't be established.\nED25519 key fingerprint is SHA256:x.\n\
                    This key is not known by any other names.\nAre you sure you want to continue connecting (yes/no/[fingerprint])? ";
        for prompt in [
            host,
            "Are you sure you want to continue connecting (yes/no)? ",
            "Please type 'yes', 'no' or the fingerprint: ",
            "Please type 'yes' or 'no': ",
            "Accept updated hostkeys? (yes/no): ",
            "Please enter \"yes\" or \"no\": ",
            "Username for 'https://h': ",
        ] {
            assert!(!is_secret(prompt, ""), "{prompt}");
        }
        let after_question = format!("{host}\nPassword: ");
        for prompt in ["Password: ", "Enter passphrase for key '/k (yes/no)': ", "", "\n", &after_question] {
            assert!(is_secret(prompt, ""), "{prompt}");
        }
        assert!(!is_secret("Allow use of key k?\nKey fingerprint SHA256:x.", "confirm"));
    }

    #[test]
    fn lines_stay_lines_and_other_controls_are_escaped() {
        assert_eq!(shown("a\r\nb\u{1b}[2J\rc\n"), "a\nb\\u{1b}[2J\\rc\n");
    }
}
