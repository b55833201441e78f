//! The unread output of a command: bounded, with the beginning and the end kept and a note of what was cut.
use std::collections::VecDeque;

/// Unread output.
#[derive(Debug)]
pub(super) struct Output {
    /// The maximum length of `head`, and of `tail`.
    half: usize,
    head: Vec<u8>,
    /// Empty while `head` has room.
    tail: VecDeque<u8>,
    cut: u64,
}

/// Output that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) text: String,
    /// The number of bytes that `text` leaves out.
    pub(super) omitted: u64,
}

impl Output {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { half: max_bytes.div_ceil(2), head: Vec::new(), tail: VecDeque::new(), cut: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let (to_head, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(to_head);
        let (lost, to_tail) = rest.split_at(rest.len().saturating_sub(self.half));
        let overflow = (self.tail.len() + to_tail.len()).saturating_sub(self.half);
        self.tail.drain(..overflow);
        self.cut += (lost.len() + overflow) as u64;
        self.tail.extend(to_tail);
    }

    /// Takes all output, shortened to `max_bytes`. `is_last`: nothing follows; otherwise an incomplete character at the end
    /// stays for the next call.
    pub(super) fn take(&mut self, max_bytes: usize, is_last: bool) -> Taken {
        let (mut head, cut) = (std::mem::take(&mut self.head), std::mem::take(&mut self.cut));
        let mut tail: Vec<u8> = std::mem::take(&mut self.tail).into();
        if !is_last {
            let end = if tail.is_empty() { &mut head } else { &mut tail };
            self.head = end.split_off(end.len() - incomplete_character(end));
        }
        let mut omitted = cut;
        if cut == 0 && head.len() + tail.len() <= max_bytes {
            head.append(&mut tail);
        } else {
            let (half, length) = (max_bytes.div_ceil(2), head.len() + tail.len());
            if tail.is_empty() {
                tail = head.split_off(head.len().min(half));
            }
            // Not in the middle of a character.
            head.truncate(half);
            head.truncate(head.len() - incomplete_character(&head));
            tail.drain(..tail.len().saturating_sub(max_bytes - half));
            tail.drain(..tail.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count());
            omitted += (length - head.len() - tail.len()) as u64;
        }
        let mut text = String::from_utf8_lossy(&head).into_owned();
        if omitted > 0 {
            text += &format!("\n[... {omitted} bytes of output left out ...]\n");
            text += &String::from_utf8_lossy(&tail);
        }
        Taken { text, omitted }
    }
}

/// The length of an incomplete character at the end of `bytes`.
fn incomplete_character(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map(|chunk| chunk.invalid()).unwrap_or_default();
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => last.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(max_bytes: usize, pieces: &[&str]) -> Taken {
        let mut output = Output::new(10);
        pieces.iter().for_each(|piece| output.push(piece.as_bytes()));
        output.take(max_bytes, true)
    }

    #[test]
    fn short_output_is_returned_whole_and_once() {
        let mut output = Output::new(10);
        output.push(b"12345");
        output.push(b"67890");
        assert_eq!(output.take(10, false), Taken { text: "1234567890".into(), omitted: 0 });
        assert_eq!(output.take(10, true), Taken { text: String::new(), omitted: 0 });
    }

    #[test]
    fn long_output_keeps_its_beginning_and_end_and_counts_the_rest() {
        let cut = |n: u64| format!("12345\n[... {n} bytes of output left out ...]\n");
        assert_eq!(taken(10, &["123456", "7890abc"]), Taken { text: cut(3) + "90abc", omitted: 3 });
        assert_eq!(
            taken(10, &["12345", &"x".repeat(1_000), "abcde"]),
            Taken { text: cut(1_000) + "abcde", omitted: 1_000 }
        );
        let short = taken(4, &["1234567890"]);
        assert_eq!(short, Taken { text: "12\n[... 6 bytes of output left out ...]\n90".into(), omitted: 6 });
        let shorter = taken(4, &["1234567890abc"]);
        assert_eq!(shorter, Taken { text: "12\n[... 9 bytes of output left out ...]\nbc".into(), omitted: 9 });
    }

    #[test]
    fn no_character_is_cut() {
        let cut = |n: u64| format!("€\n[... {n} bytes of output left out ...]\n€");
        assert_eq!(taken(9, &["€€€€"]), Taken { text: cut(6), omitted: 6 });
        assert_eq!(taken(10, &["€", "€€", "€€€€"]), Taken { text: cut(15), omitted: 15 });
    }

    #[test]
    fn memory_is_bounded() {
        let mut output = Output::new(10);
        for _ in 0..10_000 {
            output.push(b"0123456789abcdef");
            assert!(output.head.len() <= 5 && output.tail.len() <= 5);
        }
        assert_eq!(output.take(10, true).omitted, 160_000 - 10);
    }

    #[test]
    fn a_character_split_between_two_reads_is_returned_whole() {
        let mut output = Output::new(100);
        let euro = "€".as_bytes();
        output.push(b"a");
        output.push(&euro[..2]);
        assert_eq!(output.take(100, false).text, "a");
        output.push(&euro[2..]);
        assert_eq!(output.take(100, false).text, "€");
        output.push(&euro[..1]);
        assert_eq!(output.take(100, true).text, "\u{FFFD}", "nothing follows");
        output.push(b"\xFF");
        assert_eq!(output.take(100, false).text, "\u{FFFD}", "no character starts with it");
    }
}
