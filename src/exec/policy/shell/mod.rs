//! Reading a command line: every simple command in it, and every reason to doubt that it was read right.
//!
//! tree-sitter's grammar proposes how a line is to be read. It is made for editors: it goes on after errors and it is lenient
//! where bash is not. So it is not believed: every byte of the line must belong to a token that says, looked at alone, what
//! the grammar takes it for ([`token`]), and nothing but blanks may lie between tokens ([`blanks`]). What does not hold is a doubt.
//!
//! 1. A word is a text only if bash makes exactly this text of it, whatever the variables and files are.
//! 2. Commands are found wherever they stand: which of them run, nobody knows before.
//! 3. A command that runs its arguments is followed by the command that it runs ([`wrapper`]); if how is not known, it is a doubt.
mod blanks;
mod builtins;
mod commands;
mod heredoc;
mod line;
mod names;
mod options;
mod programs;
mod token;
mod tree;
mod values;
mod word;
mod wrapper;

pub(super) use line::Line;
pub(super) use word::{Word, show};

use super::rule::file_name;
use std::ops::ControlFlow;
use tree_sitter::{ParseOptions, ParseState, Parser};

/// Longer lines are a doubt: some that nobody means take the parser time that grows with the square of their length.
const MAX_BYTES: usize = 16 << 10;
/// How deep commands may run each other (`sudo sh -c 'sudo …'`).
const MAX_DEPTH: usize = 16;
/// How many commands may be in a line, with those that they run.
const MAX_COMMANDS: usize = 4_096;
/// The maximum size of all scripts in a line together; a script within another counts again.
const MAX_BYTES_IN_ALL: usize = 4 * MAX_BYTES;
/// The maximum effort of the parser for errors: each step costs as much as there is text before it.
const MAX_EFFORT: usize = 1 << 20;

impl Line {
    /// Notes a command, and what it runs in turn.
    fn command(&mut self, words: Vec<Word>, depth: usize) {
        if self.commands.len() >= MAX_COMMANDS {
            return self.doubt("it has too many commands");
        }
        let inner = wrapper::inner(&words, self);
        self.commands.push(words);
        match inner {
            None => {}
            Some(_) if depth >= MAX_DEPTH => self.doubt("its commands run each other too many levels deep"),
            Some(wrapper::Inner::Commands(commands)) => {
                commands.into_iter().for_each(|words| self.command(words, depth + 1));
            }
            Some(wrapper::Inner::Script(text)) => self.script(&text, depth + 1),
            Some(wrapper::Inner::ScriptFor(shell, text)) => {
                let before = std::mem::replace(&mut self.posix, is_posix(&shell));
                self.script(&text, depth + 1);
                self.posix = before;
            }
        }
    }

    fn script(&mut self, text: &str, depth: usize) {
        if text.len() > MAX_BYTES {
            return self.doubt(format!("it has {} bytes; at most {MAX_BYTES} are read", text.len()));
        }
        self.bytes += text.len();
        if self.bytes > MAX_BYTES_IN_ALL {
            return self.doubt("its commands run each other too many times");
        }
        if let Some(odd) =
            text.chars().find(|c| (c.is_control() || c.is_whitespace()) && !matches!(c, ' ' | '\t' | '\n'))
        {
            return self.doubt(format!("it has the character {odd:?}, which programs do not agree on"));
        }
        let mut parser = Parser::new();
        parser.set_language(&tree_sitter_bash::LANGUAGE.into()).expect("grammar and parser are of fitting versions");
        let mut effort = 0;
        let mut count = |state: &ParseState| {
            effort += if state.has_error() { state.current_byte_offset() } else { 0 };
            if effort > MAX_EFFORT { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut count);
        match parser.parse_with_options(&mut |at, _| &text.as_bytes()[at..], None, Some(options)) {
            Some(tree) => tree::read(text, &tree, self, depth),
            None => self.doubt("it is too intricate to be read"),
        }
    }
}

/// Whether scripts of this shell may have another meaning for bash.
fn is_posix(shell: &str) -> bool {
    !file_name(shell).contains("bash")
}

/// Reads a line as `shell -c` would.
pub(super) fn read(shell: &str, text: &str) -> Line {
    let mut line = Line { posix: is_posix(shell), ..Line::default() };
    line.script(text, 0);
    line.finish()
}

/// Reads a command whose words are known.
pub(super) fn read_argv(words: Vec<Word>) -> Line {
    let mut line = Line::default();
    line.command(words, 0);
    line.finish()
}
