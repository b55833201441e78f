//! Words of a command before they are expanded.

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::exec::policy) enum Word {
    /// Exactly this.
    Text(String),
    /// One word of unknown text (`"$x"`); what it was written as.
    One(String),
    /// Any number of words, none included (`$x`, `*.c`, `{a,b}`); what they were written as.
    Many(String),
}

impl Word {
    /// The text, if it is known.
    pub(in crate::exec::policy) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::One(_) | Self::Many(_) => None,
        }
    }
}

/// A command as one could type it.
pub(in crate::exec::policy) fn show(words: &[Word]) -> String {
    let show = |word: &Word| match word {
        Word::Text(text) => shlex::try_quote(text).map_or_else(|_| format!("{text:?}"), Into::into),
        Word::One(source) | Word::Many(source) => source.clone(),
    };
    words.iter().map(show).collect::<Vec<_>>().join(" ")
}
