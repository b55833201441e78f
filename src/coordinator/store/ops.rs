//! A batch as bytes: puts and deletes of keys in four tables, one after the other.
//!
//! The journal keeps these bytes as they are, and the database stores them without decoding the values. So a value is
//! read exactly as it was written, and many changes of one key become one change.
use super::Write;
use super::rows::RowCodec;
use crate::core::Timestamp;
use std::collections::BTreeMap;

/// The table of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    Meta = 0,
    Threads = 1,
    Elicitations = 2,
    Memory = 3,
}

/// The key of the floor in [`Table::Meta`].
pub(super) const FLOOR_KEY: &str = "revision floor";

/// The final value of each key after all changes. `None`: the key is deleted. Sorted by table, then by key.
pub(super) type Changes<'a> = BTreeMap<(Table, &'a [u8]), Option<&'a [u8]>>;

/// Appends `batch` to `out`.
pub(super) fn encode(batch: &[Write<'_>], boot_id: u64, out: &mut Vec<u8>) {
    // Moments are only written here and not converted, so the value of `now` does not matter.
    let codec = RowCodec { boot_id, now: Timestamp { boot: 0, wall: 0 } };
    for write in batch {
        match *write {
            Write::PutThread(thread, header) => {
                put(Table::Threads, thread.as_str().as_bytes(), out, |out| codec.put_thread(header, out));
            }
            Write::DeleteThread(thread) => key(out, Table::Threads, false, thread.as_str().as_bytes()),
            Write::PutElicitation(thread, open) => {
                put(Table::Elicitations, &open.row.to_be_bytes(), out, |out| codec.put_elicitation(thread, open, out));
            }
            Write::DeleteElicitation(row) => key(out, Table::Elicitations, false, &row.to_be_bytes()),
            Write::PutClosing(thread, closing) => {
                put(Table::Memory, &closing.row.to_be_bytes(), out, |out| codec.put_closing(thread, closing, out));
            }
            Write::PutRequest(thread, request) => {
                put(Table::Memory, &request.row.to_be_bytes(), out, |out| codec.put_request(thread, request, out));
            }
            Write::DeleteMemory(row) => key(out, Table::Memory, false, &row.to_be_bytes()),
            Write::PutFloor(floor) => {
                put(Table::Meta, FLOOR_KEY.as_bytes(), out, |out| out.extend_from_slice(&floor.to_be_bytes()));
            }
        }
    }
}

fn key(out: &mut Vec<u8>, table: Table, put: bool, key: &[u8]) {
    out.push((table as u8) << 1 | u8::from(put));
    out.extend_from_slice(&u16::try_from(key.len()).expect("keys have 256 bytes at most").to_be_bytes());
    out.extend_from_slice(key);
}

/// Appends a key and a value, and the length of the value once it is known.
fn put(table: Table, name: &[u8], out: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>)) {
    key(out, table, true, name);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    value(out);
    let length = u32::try_from(out.len() - at - 4).expect("rows have 2 KiB at most");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends one row as it is.
pub(super) fn put_row(table: Table, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    put(table, key, out, |out| out.extend_from_slice(value));
}

/// The final value of each key after all `batches`, which [`encode`] wrote. `None`: a batch is invalid.
pub(super) fn decode<'a>(batches: impl IntoIterator<Item = &'a [u8]>) -> Option<Changes<'a>> {
    let mut changes = Changes::new();
    batches.into_iter().try_for_each(|batch| add(batch, &mut changes))?;
    Some(changes)
}

/// Adds the changes of one batch.
fn add<'a>(mut bytes: &'a [u8], changes: &mut Changes<'a>) -> Option<()> {
    while let Some((&tag, rest)) = bytes.split_first() {
        let table = match tag >> 1 {
            0 => Table::Meta,
            1 => Table::Threads,
            2 => Table::Elicitations,
            3 => Table::Memory,
            _ => return None,
        };
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (name, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        let (value, rest) = match tag & 1 {
            0 => (None, rest),
            _ => {
                let (length, rest) = rest.split_first_chunk::<4>()?;
                let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
                (Some(value), rest)
            }
        };
        changes.insert((table, name), value);
        bytes = rest;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::types::ThreadId;
    use crate::core::{Header, Pause};

    #[test]
    fn the_latest_change_of_a_key_counts() {
        let thread = ThreadId::parse("", "t").unwrap();
        let moment = Timestamp { boot: 1, wall: 2 };
        let header = |revision| Header { revision, pause: Pause::default(), changed: moment };
        let batch = [
            Write::PutThread(&thread, &header(1)),
            Write::DeleteElicitation(7),
            Write::PutThread(&thread, &header(2)),
            Write::PutFloor(9),
        ];
        let mut bytes = Vec::new();
        encode(&batch, 5, &mut bytes);
        let changes = decode([&bytes[..]]).unwrap();
        let mut row = Vec::new();
        RowCodec { boot_id: 5, now: moment }.put_thread(&header(2), &mut row);
        let (floor, seven) = (9_u64.to_be_bytes(), 7_u64.to_be_bytes());
        let expected: Changes<'_> = [
            ((Table::Meta, FLOOR_KEY.as_bytes()), Some(&floor[..])),
            ((Table::Threads, &b"t"[..]), Some(&row[..])),
            ((Table::Elicitations, &seven[..]), None),
        ]
        .into();
        assert_eq!(changes, expected);
        for cut in 1..bytes.len() {
            let _ = decode([&bytes[..cut]]);
        }
        assert_eq!(decode([&bytes[..bytes.len() - 1]]), None);
    }
}
