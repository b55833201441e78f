//! A command line as it was read.
use super::{lists::HARMLESS_VARIABLES, word::Word};

/// A command line as it was read.
#[derive(Debug, Default)]
pub(in crate::exec::policy) struct Line {
    /// Each command's words, in the order of the text.
    pub(in crate::exec::policy) commands: Vec<Vec<Word>>,
    /// Reasons why the commands that run may differ from those that were read.
    pub(in crate::exec::policy) doubts: Vec<String>,
    /// Whether it writes a file by a redirection, or sets a variable that programs may use: more than the words of its
    /// commands show.
    pub(in crate::exec::policy) beyond_allow: bool,
    /// The rest of the text, from where its meaning is uncertain.
    pub(in crate::exec::policy) unread: String,
}

impl Line {
    pub(super) fn doubt(&mut self, why: impl Into<String>) {
        // One is enough to decide; a few are enough to show.
        if self.doubts.len() < 8 {
            self.doubts.push(why.into());
        }
    }

    /// Notes that a variable is set.
    pub(super) fn assign(&mut self, name: &str) {
        self.beyond_allow |= !is_harmless(name);
        // Names in lower case are variables of the line itself.
        if !is_harmless(name) && name.contains(|c: char| c.is_ascii_uppercase()) {
            self.doubt(format!("it sets {name}, which may change what the commands after it are"));
        }
    }
}

fn is_harmless(variable: &str) -> bool {
    HARMLESS_VARIABLES.contains(&variable) || variable.starts_with("LC_")
}
