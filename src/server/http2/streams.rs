//! The streams of a connection, from the first byte of their HEADERS to the last one of their answer on the wire.
use std::collections::HashMap;

/// Streams whose answer is not completely on the wire.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Whether the answer has begun.
    is_answered: HashMap<u32, bool>,
    /// The greatest id so far: HEADERS with a smaller one are trailers.
    last: u32,
}

impl Streams {
    pub(super) fn count(&self) -> usize {
        self.is_answered.len()
    }

    /// The client has sent HEADERS.
    pub(super) fn open(&mut self, id: u32) {
        if id > self.last {
            self.last = id;
            self.is_answered.insert(id, false);
        }
    }

    /// The server has sent HEADERS.
    pub(super) fn answer(&mut self, id: u32) {
        if let Some(is_answered) = self.is_answered.get_mut(&id) {
            *is_answered = true;
        }
    }

    /// The server has sent the last byte, or either side has reset the stream. Returns whether it was open and not
    /// answered.
    pub(super) fn end(&mut self, id: u32) -> bool {
        // A burst of ten thousand streams must not be paid for until the connection ends.
        if self.is_answered.len() < self.is_answered.capacity() / 8 && self.is_answered.capacity() > 256 {
            self.is_answered.shrink_to(64);
        }
        self.is_answered.remove(&id) == Some(false)
    }
}
