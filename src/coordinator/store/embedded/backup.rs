//! A backup: all rows of a store in one file, which is complete or is refused.
//!
//! ```text
//! "pausewatch backup\n"  header  rows  rows  ...  end
//! each part: kind (1 byte), length of what follows (4), checksum (8), bytes
//! header: format of the store (8), when it was taken (8: nanoseconds of the wall clock)
//! rows: as in the journal    end: how many rows there are (8)
//! ```
//!
//! The checksum of a part uses its number and kind as the seed, so missing, doubled and misplaced parts are detected
//! like damage.
use super::database::FORMAT;
use crate::coordinator::store::ops::{self, Table};
use std::io::{self, Read, Write};
use twox_hash::XxHash3_64;

const MAGIC: &[u8; 18] = b"pausewatch backup\n";
/// Bytes of rows in one part.
const PART: usize = 256 << 10;
/// The maximum size of a part in bytes. A larger length means damage, and the part is not read.
const LARGEST_PART: usize = 1 << 20;

const HEADER: u8 = b'h';
const ROWS: u8 = b'r';
const END: u8 = b'e';

/// The content of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// When it was taken: nanoseconds of the wall clock since 1970.
    pub taken: i64,
    /// Threads that are known.
    pub threads: u64,
    /// Open elicitations.
    pub elicitations: u64,
    /// Rows of any kind.
    pub rows: u64,
    /// Bytes of the backup.
    pub bytes: u64,
}

impl Summary {
    fn count(&mut self, table: Table) {
        self.rows += 1;
        self.threads += u64::from(table == Table::Threads);
        self.elicitations += u64::from(table == Table::Elicitations);
    }
}

fn checksum(number: u64, kind: u8, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(number << 8 | u64::from(kind), bytes)
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// A backup that is being written.
pub(in crate::coordinator::store) struct Writer<'a> {
    out: &'a mut dyn Write,
    parts: u64,
    buffer: Vec<u8>,
    summary: Summary,
}

impl<'a> Writer<'a> {
    pub(in crate::coordinator::store) fn begin(taken: i64, out: &'a mut dyn Write) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        let summary = Summary { taken, bytes: MAGIC.len() as u64, ..Summary::default() };
        let mut writer = Writer { out, parts: 0, buffer: Vec::with_capacity(PART + 4096), summary };
        writer.part(HEADER, &[FORMAT.to_be_bytes(), taken.to_be_bytes()].concat())?;
        Ok(writer)
    }

    fn part(&mut self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).expect("a part has a limit");
        let sum = checksum(self.parts, kind, bytes);
        self.out.write_all(&[&[kind][..], &length.to_be_bytes(), &sum.to_be_bytes(), bytes].concat())?;
        self.parts += 1;
        self.summary.bytes += 13 + u64::from(length);
        Ok(())
    }

    pub(in crate::coordinator::store) fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> io::Result<()> {
        ops::put_row(table, key, value, &mut self.buffer);
        self.summary.count(table);
        if self.buffer.len() >= PART { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.buffer);
        self.part(ROWS, &rows)?;
        self.buffer = rows;
        self.buffer.clear();
        Ok(())
    }

    pub(in crate::coordinator::store) fn end(mut self) -> io::Result<Summary> {
        self.flush()?;
        self.part(END, &self.summary.rows.to_be_bytes())?;
        self.out.flush()?;
        Ok(self.summary)
    }
}

/// Reads a backup to its end. Passes each part of rows to `rows`, and all bytes that it has read to `copy`.
///
/// # Errors
/// It is not a backup, of a later version, damaged or cut off (`InvalidData`, `UnexpectedEof`), or cannot be read or
/// copied.
pub(in crate::coordinator::store) fn read(
    from: &mut dyn Read,
    copy: &mut dyn Write,
    mut rows: impl FnMut(Vec<u8>) -> io::Result<()>,
) -> io::Result<Summary> {
    let mut magic = [0; MAGIC.len()];
    exact(from, &mut magic)?;
    if magic != *MAGIC {
        return Err(invalid("this is not a backup of pausewatch"));
    }
    copy.write_all(&magic)?;
    let mut summary = Summary { bytes: MAGIC.len() as u64, ..Summary::default() };
    for number in 0.. {
        let mut head = [0; 13];
        exact(from, &mut head)?;
        let kind = head[0];
        let length = u32::from_be_bytes(head[1..5].try_into().expect("4 bytes")) as usize;
        let sum = u64::from_be_bytes(head[5..].try_into().expect("8 bytes"));
        if length > LARGEST_PART {
            return Err(invalid("the backup is damaged"));
        }
        let mut bytes = vec![0; length];
        exact(from, &mut bytes)?;
        if checksum(number, kind, &bytes) != sum || (kind == HEADER) != (number == 0) {
            return Err(invalid("the backup is damaged"));
        }
        copy.write_all(&head)?;
        copy.write_all(&bytes)?;
        summary.bytes += 13 + length as u64;
        match kind {
            HEADER => summary.taken = header(&bytes)?,
            ROWS => {
                let changes = ops::decode([&bytes[..]]).ok_or_else(|| invalid("the backup is damaged"))?;
                changes.keys().for_each(|(table, _)| summary.count(*table));
                rows(bytes)?;
            }
            END if bytes == summary.rows.to_be_bytes() => break,
            _ => return Err(invalid("the backup is damaged")),
        }
    }
    if from.read(&mut [0])? > 0 {
        return Err(invalid("the file continues after the end of the backup"));
    }
    copy.flush()?;
    Ok(summary)
}

fn exact(from: &mut dyn Read, bytes: &mut [u8]) -> io::Result<()> {
    from.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the backup was cut off"),
        _ => error,
    })
}

fn header(bytes: &[u8]) -> io::Result<i64> {
    let number = |from: usize| bytes.get(from..from + 8).and_then(|bytes| bytes.try_into().ok());
    let (Some(format), Some(taken)) = (number(0).map(u64::from_be_bytes), number(8).map(i64::from_be_bytes)) else {
        return Err(invalid("the backup is damaged"));
    };
    match format {
        1..=FORMAT => Ok(taken),
        _ => Err(invalid(format!(
            "the backup is of a later pausewatch (format {format}, this one reads up to {FORMAT}): use that version"
        ))),
    }
}

/// Copies a backup, and fails if it is incomplete.
///
/// # Errors
/// It is incomplete, or cannot be read or written.
pub(crate) fn copy(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<Summary> {
    read(from, to, |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup() -> (Vec<u8>, Summary) {
        let mut bytes = Vec::new();
        let mut writer = Writer::begin(7, &mut bytes).unwrap();
        writer.put(Table::Threads, b"t", b"a thread").unwrap();
        writer.put(Table::Elicitations, &8_u64.to_be_bytes(), b"an elicitation").unwrap();
        let summary = writer.end().unwrap();
        (bytes, summary)
    }

    #[test]
    fn a_backup_reads_back_as_it_was_written() {
        let (bytes, summary) = backup();
        let mut copied = Vec::new();
        assert_eq!(copy(&mut &bytes[..], &mut copied).unwrap(), summary);
        assert_eq!((summary.threads, summary.elicitations, summary.rows, summary.taken), (1, 1, 2, 7));
        assert_eq!((copied.len() as u64, copied == bytes), (summary.bytes, true));
    }

    #[test]
    fn a_backup_that_is_damaged_or_cut_off_anywhere_is_refused() {
        let (bytes, _) = backup();
        for at in 0..bytes.len() {
            assert!(copy(&mut &bytes[..at], &mut io::sink()).is_err(), "cut at {at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(copy(&mut &damaged[..], &mut io::sink()).is_err(), "damaged at {at}");
        }
        let longer = [&bytes[..], b"x"].concat();
        assert!(copy(&mut &longer[..], &mut io::sink()).is_err());
    }

    #[test]
    fn a_backup_of_a_later_version_is_refused_and_says_so() {
        let later = [(FORMAT + 1).to_be_bytes(), 0_i64.to_be_bytes()].concat();
        assert!(header(&later).unwrap_err().to_string().contains("of a later pausewatch"));
    }
}
