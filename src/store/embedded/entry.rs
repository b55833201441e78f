//! One entry of the journal, written so that a torn write and a damaged one can be told apart.
//!
//! ```text
//! header  header again  payload  payload again
//! header: payload length (4 bytes), sequence number (8), checksum of the payload (8), checksum of all that (8)
//! ```
//!
//! An entry whose write was torn was never acknowledged: the journal ends before it. An entry that was acknowledged and
//! then damaged must not be taken for that, or a change would be lost in silence. So both parts stand twice: one
//! damaged place leaves a good copy, and what was torn has none.
use twox_hash::XxHash3_64;

const HEADER: usize = 28;

/// Entries that a journal can hold at most, and many times that.
const PLAUSIBLE: u64 = 1 << 32;

/// Bytes of an entry.
pub(super) fn size(payload: usize) -> usize {
    2 * (HEADER + payload)
}

/// Writes an entry to `out`.
pub(super) fn encode(sequence: u64, payload: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(payload.len()).expect("a batch is far smaller than 4 GiB");
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&length.to_be_bytes());
    header[4..12].copy_from_slice(&sequence.to_be_bytes());
    header[12..20].copy_from_slice(&XxHash3_64::oneshot(payload).to_be_bytes());
    let sum = XxHash3_64::oneshot(&header[..20]);
    header[20..].copy_from_slice(&sum.to_be_bytes());
    for part in [&header[..], &header[..], payload, payload] {
        out.extend_from_slice(part);
    }
}

/// A header that is intact.
struct Header {
    length: usize,
    sequence: u64,
    sum: u64,
}

fn header(bytes: &[u8]) -> Option<Header> {
    let bytes = bytes.get(..HEADER)?;
    let number = |from: usize| u64::from_be_bytes(bytes[from..from + 8].try_into().expect("8 bytes"));
    (XxHash3_64::oneshot(&bytes[..20]) == number(20)).then(|| Header {
        length: u32::from_be_bytes(bytes[..4].try_into().expect("4 bytes")) as usize,
        sequence: number(4),
        sum: number(12),
    })
}

/// The entry at the start of `bytes`: its sequence number, its payload, and what follows it. `None`: there is none.
pub(super) fn decode(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let header = header(bytes).or_else(|| header(bytes.get(HEADER..)?))?;
    let payloads = bytes.get(2 * HEADER..)?;
    let good = |payload: &&[u8]| XxHash3_64::oneshot(payload) == header.sum;
    let first = payloads.get(..header.length);
    let second = || payloads.get(header.length..)?.get(..header.length);
    let payload = first.filter(good).or_else(|| second().filter(good))?;
    Some((header.sequence, payload, bytes.get(size(header.length)..).unwrap_or_default()))
}

/// Whether an intact header with a number above `sequence` stands anywhere in `bytes`: then what is missing before it
/// was not torn but lost.
pub(super) fn any_later(bytes: &[u8], sequence: u64) -> bool {
    (0..bytes.len()).any(|at| {
        // What is no number that could come soon needs no checksum to be ruled out.
        let number = bytes.get(at + 4..at + 12).and_then(|number| number.try_into().ok()).map_or(0, u64::from_be_bytes);
        (sequence + 1..=sequence + PLAUSIBLE).contains(&number) && header(&bytes[at..]).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(7, b"one payload", &mut bytes);
        encode(8, b"", &mut bytes);
        bytes
    }

    #[test]
    fn entries_read_back_one_after_the_other() {
        let bytes = journal();
        let (sequence, payload, rest) = decode(&bytes).unwrap();
        assert_eq!((sequence, payload), (7, &b"one payload"[..]));
        assert_eq!(decode(rest), Some((8, &b""[..], &b""[..])));
    }

    #[test]
    fn g5_any_damaged_byte_leaves_a_good_copy() {
        let intact = journal();
        for at in 0..intact.len() {
            let mut bytes = intact.clone();
            bytes[at] ^= 1 << (at % 8);
            let (sequence, payload, rest) = decode(&bytes).unwrap();
            assert_eq!((sequence, payload), (7, &b"one payload"[..]), "byte {at}");
            assert_eq!(decode(rest).map(|entry| entry.0), Some(8), "byte {at}");
        }
    }

    #[test]
    fn a_torn_entry_is_none() {
        let mut bytes = Vec::new();
        encode(7, b"one payload", &mut bytes);
        for written in 0..2 * HEADER + b"one payload".len() {
            let mut torn = bytes.clone();
            torn[written..].fill(0);
            assert_eq!(decode(&torn), None, "{written} bytes written");
        }
    }

    #[test]
    fn a_later_entry_is_found_behind_damage() {
        let bytes = journal();
        assert!(any_later(&bytes[3..], 7));
        assert!(!any_later(&bytes[3..], 8));
    }
}
