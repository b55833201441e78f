//! Finds the ends of the messages in a stream of them, as gRPC frames them: a flag, the length in 4 bytes, the message.

/// The flag and the length before a message.
const PREFIX: usize = 5;

/// A position in a stream of messages.
#[derive(Debug, Default)]
pub(super) struct Boundary {
    prefix: [u8; PREFIX],
    /// How many bytes of the prefix have come.
    come: usize,
    /// Bytes of the message that have not come.
    left: usize,
}

impl Boundary {
    /// More bytes have come. Returns whether a message ended in them, or they were part of none.
    pub(super) fn advance(&mut self, mut data: &[u8]) -> bool {
        let mut has_ended = self.is_between() && data.is_empty();
        while !data.is_empty() {
            if self.come < PREFIX {
                let (part, rest) = data.split_at(data.len().min(PREFIX - self.come));
                self.prefix[self.come..self.come + part.len()].copy_from_slice(part);
                self.come += part.len();
                data = rest;
                if self.come < PREFIX {
                    break;
                }
                let [_, length @ ..] = self.prefix;
                self.left = u32::from_be_bytes(length) as usize;
            }
            let payload = data.len().min(self.left);
            self.left -= payload;
            data = &data[payload..];
            if self.left == 0 {
                (self.come, has_ended) = (0, true);
            }
        }
        has_ended
    }

    /// Whether nothing of a message has come.
    pub(super) fn is_between(&self) -> bool {
        self.come == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_ends_with_its_last_byte_however_it_is_cut() {
        let bytes = b"\0\0\0\0\x03abc\0\0\0\0\0\0\0\0\0\x01x";
        let ends = [8, 13, 19];
        let mut boundary = Boundary::default();
        for at in 1..=bytes.len() {
            assert_eq!(boundary.advance(&bytes[at - 1..at]), ends.contains(&at), "byte {at}");
            assert_eq!(boundary.is_between(), ends.contains(&at));
        }
        assert!(boundary.advance(bytes) && boundary.is_between());
        assert!(boundary.advance(&bytes[..15]) && !boundary.is_between());
    }
}
