//! A program that is about to be executed, as people read it.
use super::Exec;

/// The program with its arguments, as one could type it.
pub(crate) fn command_of(exec: &Exec) -> String {
    let words = [exec.program.as_str()].into_iter().chain(exec.argv.iter().skip(1).map(String::as_str));
    let mut text = words.map(quoted).collect::<Vec<_>>().join(" ");
    if !exec.is_complete {
        text += " …";
    }
    text
}

pub(super) fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| format!("{word:?}"), Into::into)
}
