//! The characters of a line, in the order in which a shell tokenizes them.
use std::str::Chars;

/// What joins a line with the next one: every shell removes it before it tokenizes, wherever it stands except in a
/// comment, in single quotes, and behind another backslash. It may stand inside an operator (`&\⏎&`), or between `$`
/// and `(` in double quotes.
const CONTINUATION: &str = "\\\n";

/// The rest of a line.
pub(super) struct Input<'a> {
    rest: Chars<'a>,
    /// The character before the rest.
    last: char,
    /// See [`Self::is_ambiguous`].
    is_ambiguous: bool,
}

impl<'a> Input<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.chars(), last: '\n', is_ambiguous: false }
    }

    /// Whether a backslash that means something came directly after a letter that is not ASCII. In Shift JIS, Big5 and GBK
    /// it may be the second byte of the letter, and then a shell does not see it.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.is_ambiguous
    }

    /// The next character, which stays the next one.
    pub(super) fn peek(&mut self) -> Option<char> {
        self.is_ambiguous |= !self.last.is_ascii() && self.rest.as_str().starts_with('\\');
        while let Some(rest) = self.rest.as_str().strip_prefix(CONTINUATION) {
            self.rest = rest.chars();
        }
        self.rest.clone().next()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        self.peek();
        self.next_literal()
    }

    pub(super) fn next_if(&mut self, is_wanted: impl FnOnce(char) -> bool) -> Option<char> {
        let c = self.peek()?;
        is_wanted(c).then(|| self.next_literal()).flatten()
    }

    /// The next character where a backslash at the end of a line means itself.
    pub(super) fn next_literal(&mut self) -> Option<char> {
        self.last = self.rest.next()?;
        Some(self.last)
    }

    /// Skips a comment, up to the end of its line.
    pub(super) fn skip_comment(&mut self) {
        let rest = self.rest.as_str();
        self.rest = rest[rest.find('\n').unwrap_or(rest.len())..].chars();
    }

    /// All that is left.
    pub(super) fn rest(&self) -> &'a str {
        self.rest.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_except_where_a_backslash_means_itself() {
        let mut input = Input::new("\\\n\\\na\\\nb\\\\\n#c\\\nd");
        assert_eq!((input.peek(), input.next(), input.next()), (Some('a'), Some('a'), Some('b')));
        assert_eq!((input.next(), input.next_literal(), input.next()), (Some('\\'), Some('\\'), Some('\n')));
        input.skip_comment();
        assert_eq!((input.next(), input.rest()), (Some('\n'), "d"));
        let mut input = Input::new("\\\nx");
        assert_eq!((input.next_literal(), input.next_if(|c| c == 'x'), input.rest()), (Some('\\'), None, "\nx"));
        for (text, is_ambiguous) in [("é\\n", true), ("é\\\nx", true), ("e\\n", false), ("\\é", false)] {
            let mut input = Input::new(text);
            while input.next().is_some() {}
            assert_eq!(input.is_ambiguous(), is_ambiguous, "{text}");
        }
    }
}
