//! Whether the programs of a command are judged, as shown in its result.
use std::{fmt, sync::Arc};

/// Whether the rules hold for the programs that a command in the sandbox executes.
#[derive(Debug, Clone)]
pub(crate) enum NestedPrograms {
    /// They are judged when they are executed.
    Judged {
        /// The file names of those that a rule asks about or forbids; may be empty.
        restricted: Arc<[String]>,
        /// Whether a rule allows any.
        has_allowed: bool,
    },
    /// Only the text of command lines is judged, for this reason.
    NotJudged(String),
}

impl NestedPrograms {
    /// Whether there are rules about programs, whether or not they can be enforced.
    pub(super) fn has_rules(&self) -> bool {
        match self {
            Self::Judged { restricted, has_allowed } => *has_allowed || !restricted.is_empty(),
            Self::NotJudged(_) => true,
        }
    }

    /// The names of programs to judge when they are executed; `None`: they are not judged.
    pub(super) fn restricted(&self) -> Option<&[String]> {
        match self {
            Self::Judged { restricted, .. } => Some(restricted),
            Self::NotJudged(_) => None,
        }
    }
}

impl fmt::Display for NestedPrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Judged { .. } if self.has_rules() => f.write_str("nested programs are judged"),
            Self::NotJudged(why) => write!(f, "nested programs are not judged: {why}"),
            Self::Judged { .. } => f.write_str("there are no rules about programs"),
        }
    }
}
