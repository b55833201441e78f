//! A command line as it was read.
use super::{lists::HARMLESS_VARIABLES, word::Word};

/// A command line as it was read.
#[derive(Debug, Default)]
pub(in crate::exec::policy) struct Line {
    /// Each command's words, in the order of the text.
    pub(in crate::exec::policy) commands: Vec<Vec<Word>>,
    /// The indices of the commands that the shell of the line itself starts, not another command.
    pub(in crate::exec::policy) own: Vec<usize>,
    /// Reasons why the commands that run may differ from those that were read.
    pub(in crate::exec::policy) doubts: Vec<String>,
    /// Whether it is more than commands joined by operators: groups, control flow, or text that is not read.
    pub(in crate::exec::policy) is_loose: bool,
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

    /// A doubt about which commands run, or how often.
    pub(super) fn loose(&mut self, why: impl Into<String>) {
        self.is_loose = true;
        self.doubt(why);
    }

    /// Notes that a variable is set.
    pub(super) fn assign(&mut self, name: &str) {
        // Names in lower case are variables of the line itself.
        if !is_harmless(name) && name.contains(|c: char| c.is_ascii_uppercase()) {
            self.doubt(format!("it sets {name}, which may change what the commands after it are"));
        }
    }
}

fn is_harmless(variable: &str) -> bool {
    HARMLESS_VARIABLES.contains(&variable) || variable.starts_with("LC_")
}
