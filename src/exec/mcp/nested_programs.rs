//! Whether the programs of a command are judged, as shown in its result.
use std::{fmt, sync::Arc};

/// Whether the rules hold for the programs that a command in the sandbox executes.
#[derive(Debug, Clone)]
pub(crate) enum NestedPrograms {
    /// They are judged when they are executed.
    Judged {
        /// The file names of those that a rule asks about or forbids; may be empty.
        restricted: Arc<[String]>,
    },
    /// Only the text of command lines is judged, for this reason.
    NotJudged(String),
}

impl NestedPrograms {
    /// Whether a rule asks about or forbids programs, whether or not it can be enforced.
    pub(super) fn has_restricted(&self) -> bool {
        self.restricted() != Some(&[])
    }

    /// The names of programs to judge when they are executed; `None`: they are not judged.
    pub(super) fn restricted(&self) -> Option<&[String]> {
        match self {
            Self::Judged { restricted } => Some(restricted),
            Self::NotJudged(_) => None,
        }
    }
}

impl fmt::Display for NestedPrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Judged { restricted } if !restricted.is_empty() => f.write_str("nested programs are judged"),
            Self::NotJudged(why) => write!(f, "nested programs are not judged: {why}"),
            Self::Judged { .. } => f.write_str("no rule restricts programs"),
        }
    }
}
