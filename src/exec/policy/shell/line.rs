//! A command line as it was read: its commands, and the reasons to doubt them.
use super::word::Word;
use std::collections::BTreeSet;

/// The parts of a line that were read.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Each command's words, in the order of the text.
    pub(crate) commands: Vec<Vec<Word>>,
    /// Why what was read may not be what runs.
    pub(crate) doubts: Vec<String>,
    /// It writes a file by a redirection, or sets a variable that programs may heed: more than its commands' words say.
    pub(crate) beyond_allow: bool,
    /// Arithmetic and the like, which runs commands that are hidden in the values of variables (`a[$(rm)]`).
    pub(super) evaluates: bool,
    /// Variables get values that are not mere numbers.
    pub(super) assigned: bool,
    /// A quoted text has a substitution in it.
    pub(super) hidden: bool,
    /// Words in `[ … ]` may become others.
    pub(super) splits: bool,
    /// `HOME` is set, and a shell reads its profile, which is there.
    pub(super) rehomed: bool,
    pub(super) login: bool,
    /// Variables that are arrays, and those that `declare` and its like give what may be a list. In what is both, bash runs what
    /// is to be substituted.
    pub(super) arrays: BTreeSet<String>,
    pub(super) lists: BTreeSet<String>,
    /// The text being read is for a shell that is not bash.
    pub(super) posix: bool,
    /// Read so far.
    pub(super) bytes: usize,
}

impl Line {
    pub(super) fn doubt(&mut self, why: impl Into<String>) {
        // One is enough to decide; a few are enough to tell.
        if self.doubts.len() < 8 {
            self.doubts.push(why.into());
        }
    }

    pub(super) fn finish(mut self) -> Self {
        if self.evaluates && (self.assigned || self.hidden) {
            self.doubt("it evaluates a text that is not known, which may run commands");
        }
        if self.splits && self.hidden {
            self.doubt("words of its tests may become others, which may run commands");
        }
        if !self.arrays.is_disjoint(&self.lists) {
            self.doubt("it declares a list of what is not known, which may run commands");
        }
        if self.rehomed && self.login {
            self.doubt("it runs a shell whose profile is not known");
        }
        self.beyond_allow |= self.splits && self.assigned;
        self
    }
}
