//! Approved programs in a terminal: they can read from it, and job control works.
use super::{Judged, text};
use crate::support::PATIENCE;
use serde_json::{Value, json};
use std::time::Instant;

/// A session in a terminal, and all output so far.
struct Terminal {
    judged: Judged,
    session: String,
    shown: String,
}

impl Terminal {
    fn start(line: &str) -> Option<Self> {
        let mut judged = Judged::start()?;
        let arguments = json!({"command": line, "workdir": judged.directory.path(), "tty": true, "yield_time_ms": 1});
        let id = judged.client.begin("exec_command", "t", arguments);
        let started = judged.approve_until(id);
        let session = text(&started, "session_id").to_owned();
        Some(Self { judged, session, shown: text(&started, "output").to_owned() })
    }

    /// Writes `chars`, and waits until later output contains `expected`; if `chars` is empty, earlier output counts
    /// too. Approves every question.
    fn type_until(&mut self, chars: &str, expected: &str) {
        let from = if chars.is_empty() { 0 } else { self.shown.len() };
        let (mut chars, end) = (chars, Instant::now() + PATIENCE);
        while !self.shown[from..].contains(expected) {
            assert!(Instant::now() < end, "{expected:?} is not in {:?}", self.shown);
            let arguments = json!({"session_id": self.session, "chars": chars, "yield_time_ms": 50});
            chars = "";
            let id = self.judged.client.begin("write_stdin", "t", arguments);
            let answer = self.judged.approve_until(id);
            self.shown += text(&answer, "output");
            assert!(answer["exit_code"] == Value::Null || self.shown[from..].contains(expected), "{:?}", self.shown);
        }
    }
}

#[test]
fn an_approved_program_reads_the_terminal_and_ctrl_c_ends_it() {
    let Some(mut terminal) = Terminal::start("sh -c 'read x; ./nested'") else { return };
    terminal
        .judged
        .script("nested", "#!/bin/sh\ntrap : INT\ncat; echo \"code $?\"; cat < /dev/tty; echo \"code $?\"\n");
    terminal.type_until("go\none\n", "one\r\none\r\n");
    terminal.type_until("\u{3}", "code 130\r\n");
    terminal.type_until("two\n", "two\r\ntwo\r\n");
    terminal.type_until("\u{4}", "code 0\r\n");
}

#[test]
fn job_control_of_an_interactive_shell_works_with_approved_programs() {
    let Some(mut terminal) = Terminal::start("PS1='ready> ' exec bash --norc --noprofile -i") else { return };
    terminal.type_until("", "ready> ");
    // From here on, the program has the terminal.
    let started = "\u{1b}[?2004l";
    terminal.type_until("cat\n", started);
    terminal.type_until("one\n", "one\r\none\r\n");
    terminal.type_until("\u{1a}", "Stopped");
    terminal.type_until("fg\n", "l\rcat\r\n");
    terminal.type_until("two\n", "two\r\ntwo\r\n");
    terminal.type_until("\u{4}", "ready> ");
    terminal.type_until("echo code $?\n", "code 0\r\n");
    // A background job that reads from the terminal is stopped.
    terminal.type_until("cat &\n", "ready> ");
    terminal.type_until("while ! jobs | grep Stopped; do :; done\n", "Stopped                 cat");
    terminal.type_until("kill %1; wait %1; echo code $?\n", "code 1");
    terminal.type_until("cat\n", started);
    // It has the terminal now: earlier, the shell would have received the interrupt.
    terminal.type_until("three\n", "three\r\nthree\r\n");
    terminal.type_until("\u{3}", "ready> ");
    terminal.type_until("echo \"code $?\"\n", "code 130\r\n");
    let session = json!({"session_id": terminal.session});
    terminal.judged.client.call("kill", session);
}

/// The program's process group is not that of the supervisor.
#[test]
fn an_interactive_shell_is_told_that_it_ends() {
    let Some(mut terminal) = Terminal::start("PS1='ready> ' exec bash --norc --noprofile -i") else { return };
    terminal.type_until("", "ready> ");
    terminal.type_until("trap 'echo hung up > told' HUP EXIT; echo trapped $?\n", "trapped 0\r\n");
    let session = json!({"session_id": terminal.session});
    terminal.judged.client.call("kill", session);
    let told = std::fs::read_to_string(terminal.judged.path("told"));
    assert_eq!(told.expect("it was not told"), "hung up\n");
}
