//! One entry of the journal, in a format that distinguishes torn writes from damage.
//!
//! ```text
//! header  payload  zeros up to the next sector of the file  header again  payload again
//! header: payload length (4 bytes), sequence number (8), checksum of the payload (8), checksum of all that (8)
//! ```
//!
//! A torn entry was never acknowledged: the journal ends before it. An acknowledged entry that was damaged later must
//! not look like a torn one, or a change would be lost silently. So each entry is written twice, and the two copies are
//! never in one sector: after damage in one place there is a good copy, and a torn entry has none.
//!
//! The checksums have a seed that only the store knows. Payloads contain texts of callers, and old payloads stay in the
//! files until they are overwritten. Without a seed, a caller could send a text that looks like an entry.
use twox_hash::XxHash3_64;

/// The unit that a disk writes atomically, in bytes.
const SECTOR: usize = 512;
const HEADER: usize = 28;

/// The offset of the second copy of an entry with a payload of `length` bytes, if the first copy is at `start`.
fn second(start: usize, length: usize) -> usize {
    (start + HEADER + length).next_multiple_of(SECTOR)
}

/// The offset of the end of an entry at `start` with a payload of `length` bytes.
pub(super) fn end(start: usize, length: usize) -> usize {
    second(start, length) + HEADER + length
}

/// Appends an entry to `out`. `start`: the offset in its file at which it will be written.
pub(super) fn encode(seed: u64, start: usize, sequence: u64, payload: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(payload.len()).expect("a batch is far smaller than 4 GiB");
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&length.to_be_bytes());
    header[4..12].copy_from_slice(&sequence.to_be_bytes());
    header[12..20].copy_from_slice(&XxHash3_64::oneshot_with_seed(seed, payload).to_be_bytes());
    let sum = XxHash3_64::oneshot_with_seed(seed, &header[..20]);
    header[20..].copy_from_slice(&sum.to_be_bytes());
    let first = out.len();
    out.extend_from_slice(&header);
    out.extend_from_slice(payload);
    out.resize(first + second(start, payload.len()) - start, 0);
    out.extend_from_slice(&header);
    out.extend_from_slice(payload);
}

/// A header that is intact.
struct Header {
    length: usize,
    sequence: u64,
    sum: u64,
}

fn header(seed: u64, bytes: &[u8], at: usize) -> Option<Header> {
    let bytes = bytes.get(at..)?.get(..HEADER)?;
    let number = |from: usize| u64::from_be_bytes(bytes[from..from + 8].try_into().expect("8 bytes"));
    // No entry has the number 0, so no checksum has to be computed for zeros.
    (number(4) > 0 && XxHash3_64::oneshot_with_seed(seed, &bytes[..20]) == number(20)).then(|| Header {
        length: u32::from_be_bytes(bytes[..4].try_into().expect("4 bytes")) as usize,
        sequence: number(4),
        sum: number(12),
    })
}

/// An entry that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) sequence: u64,
    pub(super) payload: &'a [u8],
    /// The offset at which the next entry would start.
    pub(super) end: usize,
}

/// The entry at the offset `start` of a file; with `expected`, only if it has this number. `None`: there is no such
/// entry.
pub(super) fn decode(seed: u64, file: &[u8], start: usize, expected: Option<u64>) -> Option<Entry<'_>> {
    let entry = |header: Header| {
        let payload = |copy: usize| file.get(copy + HEADER..)?.get(..header.length);
        let good = |payload: &&[u8]| XxHash3_64::oneshot_with_seed(seed, payload) == header.sum;
        let payload = payload(start).filter(good);
        let payload =
            payload.or_else(|| file.get(second(start, header.length) + HEADER..)?.get(..header.length).filter(good))?;
        Some(Entry { sequence: header.sequence, payload, end: end(start, header.length) })
    };
    let as_expected = |header: &Header| expected.is_none_or(|expected| header.sequence == expected);
    if let Some(found) = header(seed, file, start).filter(as_expected).and_then(entry) {
        return Some(found);
    }
    // Without the first header the length is unknown: the second copy begins at one of the next sectors. There may be
    // older copies too, where the file was not overwritten.
    let seconds = (second(start, 0)..file.len()).step_by(SECTOR);
    seconds
        .filter_map(|at| header(seed, file, at).filter(|header| second(start, header.length) == at))
        .filter(as_expected)
        .filter_map(entry)
        .max_by_key(|entry| entry.sequence)
}

/// Whether `file` contains a copy of an entry with a number above `sequence`: then the missing entry before it was not
/// torn but lost.
pub(super) fn any_later(seed: u64, file: &[u8], sequence: u64) -> bool {
    let sectors = (0..file.len()).step_by(SECTOR);
    sectors.filter_map(|at| header(seed, file, at)).any(|header| header.sequence > sequence)
}

/// Whether a file without an entry at its start was overwritten by other data. A torn write leaves zeros, a part of an
/// entry, or an earlier entry. All of these begin with the first byte of a length, which is 0 below 16 MiB. One damaged
/// sector does not count, because an entry has a second copy.
pub(super) fn is_overwritten(file: &[u8]) -> bool {
    let (first, rest) = file.split_at(file.len().min(SECTOR));
    first.first().is_some_and(|byte| *byte != 0) && rest.iter().any(|byte| *byte != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 3;
    const START: usize = 100;

    /// Entries 7 and 8, the first at [`START`].
    fn file(first: &[u8]) -> Vec<u8> {
        let mut file = vec![0; START];
        encode(SEED, START, 7, first, &mut file);
        let start = file.len();
        encode(SEED, start, 8, b"", &mut file);
        file
    }

    fn payloads() -> [Vec<u8>; 3] {
        [b"one payload".to_vec(), vec![b'x'; 512 - START - HEADER], vec![b'y'; 1_500]]
    }

    #[test]
    fn entries_read_back_one_after_the_other() {
        for payload in payloads() {
            let file = file(&payload);
            let first = decode(SEED, &file, START, None).unwrap();
            assert_eq!((first.sequence, first.payload), (7, &payload[..]));
            let second = Entry { sequence: 8, payload: b"", end: file.len() };
            assert_eq!(decode(SEED, &file, first.end, Some(8)), Some(second));
            assert_eq!(decode(SEED, &file, first.end, Some(9)), None);
        }
    }

    #[test]
    fn g5_any_damaged_byte_or_sector_leaves_a_good_copy() {
        for payload in payloads() {
            let intact = file(&payload);
            let end = decode(SEED, &intact, START, None).unwrap().end;
            let check = |damaged: &[u8], what: &str| {
                let first = decode(SEED, damaged, START, None).unwrap_or_else(|| panic!("{what}"));
                assert_eq!((first.sequence, first.payload, first.end), (7, &payload[..], end), "{what}");
                assert_eq!(decode(SEED, damaged, end, Some(8)).map(|entry| entry.sequence), Some(8), "{what}");
            };
            for at in START..intact.len() {
                let mut damaged = intact.clone();
                damaged[at] ^= 1 << (at % 8);
                check(&damaged, &format!("byte {at}"));
            }
            for sector in 0..intact.len().div_ceil(SECTOR) {
                let mut damaged = intact.clone();
                let till = damaged.len().min((sector + 1) * SECTOR);
                damaged[sector * SECTOR..till].fill(0);
                check(&damaged, &format!("sector {sector}"));
            }
        }
    }

    #[test]
    fn a_torn_entry_is_none_and_no_loss() {
        for payload in payloads() {
            let mut whole = vec![0; START];
            encode(SEED, START, 7, &payload, &mut whole);
            for written in START..START + HEADER + payload.len() {
                let mut torn = whole.clone();
                torn[written..].fill(0);
                assert_eq!(decode(SEED, &torn, START, None), None, "{written} bytes written");
                assert!(!any_later(SEED, &torn, 7));
                assert!(!is_overwritten(&torn[START..]));
            }
        }
    }

    #[test]
    fn a_file_that_was_overwritten_is_neither_blank_nor_torn() {
        let mut file = vec![0; 4 * SECTOR];
        assert!(!is_overwritten(&file) && !is_overwritten(&[]));
        file[..SECTOR].fill(0xff);
        assert!(!is_overwritten(&file), "one damaged sector");
        file[SECTOR] = 1;
        assert!(is_overwritten(&file));
        file[0] = 0;
        assert!(!is_overwritten(&file), "it may be torn");
    }

    #[test]
    fn a_later_entry_is_found_behind_damage() {
        let file = file(b"one payload");
        assert!(any_later(SEED, &file, 7));
        assert!(!any_later(SEED, &file, 8));
    }

    #[test]
    fn an_entry_of_another_seed_is_none() {
        assert_eq!(decode(SEED + 1, &file(b"one payload"), START, None), None);
        assert!(!any_later(SEED + 1, &file(b"one payload"), 0));
    }
}
