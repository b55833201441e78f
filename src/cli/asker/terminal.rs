//! Asks at the terminal, as ssh itself does: the answer is not shown.
//!
//! 1. The terminal shows input again when this ends, also by a signal.
use crate::cli::{exit, failure::say, output};
use crate::exec::supervise::{ExitAction, Signal, SignalListener};
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
            let yes = ["", "y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str());
            ExitCode::from(if yes { 0 } else { exit::FAILED })
        }
        Ok(Answer::Line(answer)) => match output::print(format!("{answer}\n").as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => fail(&why.to_string()),
        },
        Ok(Answer::Nothing) => ExitCode::from(exit::FAILED),
        Ok(Answer::Ended(signal)) => ExitAction::Die { signal, dumped_core: false }.carry_out(),
        Err(error) => fail(&format!("ask at the terminal: {error}")),
    }
}

enum Answer {
    Line(String),
    /// The end of input.
    Nothing,
    Ended(Signal),
}

fn try_to_ask(prompt: &str, kind: &str) -> io::Result<Answer> {
    let mut terminal = open()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let mut listener = SignalListener::catching(&[], &ENDING)?;
        terminal.write_all(crate::escape::escaped(prompt).as_bytes())?;
        // A name and a confirmation are no secrets.
        let _hidden = match kind == "confirm" || prompt.starts_with("Username") {
            true => None,
            false => Some(Hidden::start(terminal.try_clone()?)?),
        };
        let from = terminal.try_clone()?;
        let reading = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(from).read_line(&mut line).map(|length| (length > 0).then_some(line))
        });
        tokio::select! {
            read = reading => Ok(match read.map_err(io::Error::other)?? {
                Some(line) => Answer::Line(line.trim_end_matches(['\n', '\r']).to_owned()),
                None => Answer::Nothing,
            }),
            signal = listener.recv() => Ok(Answer::Ended(signal)),
        }
    });
    runtime.shutdown_background();
    result
}

/// A terminal that does not show input until this is dropped.
struct Hidden(File, Termios);

impl Hidden {
    fn start(terminal: File) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Flush, &hidden)?;
        Ok(Self(terminal, before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.0, OptionalActions::Flush, &self.1);
        let _ = self.0.write_all(b"\n");
    }
}

fn fail(why: &str) -> ExitCode {
    say("askpass", why);
    ExitCode::from(exit::FAILED)
}
