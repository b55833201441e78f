//! Splits a byte stream into lines, each with its newline, and loses no byte.
//!
//! 1. The pieces, joined, are the stream.
//! 2. Memory is bounded: a longer line than [`MAX_LINE`] comes in parts, which are passed on unread.

/// The maximum length of a line that is read as a message, in bytes. Images in a message are a few MiB.
const MAX_LINE: usize = 64 << 20;

/// A piece of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A whole line.
    Line(Vec<u8>),
    /// A part of a line that is too long, or what follows the last newline at the end of the stream.
    Part(Vec<u8>),
}

impl Piece {
    pub(super) fn bytes(&self) -> &[u8] {
        let (Self::Line(bytes) | Self::Part(bytes)) = self;
        bytes
    }
}

/// The splitter.
#[derive(Debug)]
pub(super) struct Lines {
    /// The beginning of a line.
    partial: Vec<u8>,
    /// A part of the current line was already returned.
    in_parts: bool,
    max: usize,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self::with_max(MAX_LINE)
    }

    fn with_max(max: usize) -> Self {
        Self { partial: Vec::new(), in_parts: false, max }
    }

    /// Adds bytes and returns the pieces that are complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(part);
            let ends = part.ends_with(b"\n");
            if !ends && !self.in_parts && self.partial.len() <= self.max {
                continue;
            }
            let bytes = std::mem::take(&mut self.partial);
            let is_part = self.in_parts || bytes.len() > self.max;
            pieces.push(if is_part { Piece::Part(bytes) } else { Piece::Line(bytes) });
            self.in_parts = is_part && !ends;
        }
        pieces
    }

    /// The rest at the end of the stream.
    pub(super) fn rest(&mut self) -> Option<Piece> {
        self.in_parts = false;
        (!self.partial.is_empty()).then(|| Piece::Part(std::mem::take(&mut self.partial)))
    }

    /// Whether a line was returned in part: nothing else may be written before its end.
    pub(super) fn is_within_line(&self) -> bool {
        self.in_parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Piece {
        Piece::Line(text.into())
    }

    fn part(text: &str) -> Piece {
        Piece::Part(text.into())
    }

    #[test]
    fn lines_are_the_same_however_the_stream_is_cut() {
        let stream = b"{\"id\":1}\n\n{\"a\":\"\xff\"}\r\nrest";
        for size in 1..=stream.len() {
            let mut lines = Lines::new();
            let mut pieces: Vec<_> = stream.chunks(size).flat_map(|chunk| lines.push(chunk)).collect();
            assert_eq!(pieces.len(), 3, "cut into {size}");
            pieces.extend(lines.rest());
            assert_eq!(pieces.iter().flat_map(Piece::bytes).copied().collect::<Vec<_>>(), stream, "cut into {size}");
            assert_eq!((&pieces[1], &pieces[3]), (&line("\n"), &part("rest")), "cut into {size}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_comes_in_parts() {
        let mut lines = Lines::with_max(4);
        assert_eq!(lines.push(b"abcd"), []);
        assert_eq!(lines.push(b"e"), [part("abcde")]);
        assert!(lines.is_within_line());
        assert_eq!(lines.push(b"f"), [part("f")]);
        assert_eq!(lines.push(b"g\nabc\n"), [part("g\n"), line("abc\n")]);
        assert!(!lines.is_within_line());
        assert_eq!(lines.push(b"abcdef\n"), [part("abcdef\n")]);
        assert!(!lines.is_within_line() && lines.rest().is_none());
    }
}
