//! The journal: what was committed and is not yet in the database, in a few files that are written over and over.
//!
//! A database makes a commit durable by writing whole pages; a journal does it with one short write. Its files are
//! filled with zeros beforehand, so that an fdatasync has no change of the file to write but the data, and a disk that
//! is full cannot stop it.
//!
//! - J1: entries have consecutive numbers across the files. An entry is written only when the one before is durable:
//!   so a number that is missing before a later one was lost, and the store is damaged.
//! - J2: a file is written over only when the database holds all that is in it.
use super::disk::Disk;
use super::entry;
use super::ops::{self, Changes};
use redb::StorageBackend;
use std::collections::VecDeque;
use std::io;

/// Bytes of a file. Small, so that a small disk does; there are more of them when there is much to do.
pub(super) const SEGMENT: u64 = 1 << 20;
/// Files that there are from the start.
const SEGMENTS: u64 = 2;
/// Files that there are at most: 8 MiB take many thousand changes, while the database takes up the ones before.
pub(super) const MAX_SEGMENTS: u64 = 8;

/// One file of the journal.
pub(super) struct Segment {
    file: Box<dyn StorageBackend>,
    /// Bytes that the file has.
    length: u64,
    /// Where the next entry goes.
    end: u64,
    /// The number of its latest entry.
    pub(super) last: u64,
}

/// All files of the journal that the writer has; those that the database is taking up are elsewhere.
pub(super) struct Journal {
    active: Segment,
    next: u64,
    buffer: Vec<u8>,
}

/// What was found in the files when the store was opened.
pub(super) struct Found {
    /// The files, whose entries must be taken up before they are written over.
    pub(super) segments: Vec<Segment>,
    /// The payloads that the database does not hold yet, in their order.
    pub(super) payloads: Vec<Vec<u8>>,
    /// The number of the last entry.
    pub(super) last: u64,
}

/// Why the journal cannot be read.
pub(super) enum ReadError {
    Io(io::Error),
    Damaged(String),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(error)
    }
}

/// A new file full of zeros.
pub(super) fn create(disk: &dyn Disk, number: u64) -> io::Result<Segment> {
    let file = disk.segment(number)?;
    file.set_len(SEGMENT)?;
    file.write(0, &vec![0; SEGMENT as usize])?;
    file.sync_data()?;
    disk.sync_directory()?;
    Ok(Segment { file, length: SEGMENT, end: 0, last: 0 })
}

/// Reads the files. `applied`: the number of the last entry that the database holds.
pub(super) fn open(disk: &dyn Disk, applied: u64) -> Result<Found, ReadError> {
    let mut segments = Vec::new();
    let mut contents = Vec::new();
    for number in 0..MAX_SEGMENTS {
        if number < SEGMENTS && !disk.has_segment(number)? {
            segments.push(create(disk, number)?);
        } else if disk.has_segment(number)? {
            let file = disk.segment(number)?;
            let length = file.len()?;
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            file.read(0, &mut bytes)?;
            if length < SEGMENT {
                // Made by a process that ended before it was filled.
                segments.push(create(disk, number)?);
            } else {
                segments.push(Segment { file, length, end: 0, last: 0 });
            }
            contents.push(bytes);
        }
    }
    let (payloads, last) = read(&contents, applied)?;
    Ok(Found { segments, payloads, last })
}

/// The payloads after `applied`, in their order, and the number of the last entry.
fn read(contents: &[Vec<u8>], applied: u64) -> Result<(Vec<Vec<u8>>, u64), ReadError> {
    let mut entries = Vec::new();
    let mut tails = Vec::new();
    for bytes in contents {
        let (mut rest, mut last) = (&bytes[..], None);
        while let Some((sequence, payload, behind)) = entry::decode(rest)
            && last.is_none_or(|last| sequence == last + 1)
        {
            entries.push((sequence, payload));
            (rest, last) = (behind, Some(sequence));
        }
        tails.push(rest);
    }
    entries.sort_unstable_by_key(|(sequence, _)| *sequence);
    let mut last = applied;
    let mut payloads = Vec::new();
    for (sequence, payload) in entries.into_iter().filter(|(sequence, _)| *sequence > applied) {
        if sequence != last + 1 {
            return Err(ReadError::Damaged(format!("the journal lacks entry {}", last + 1)));
        }
        last = sequence;
        payloads.push(payload.to_vec());
    }
    // The header of the entry after the last may be there without its payload: a write that was torn. But a later one
    // was begun only when that was durable (J1).
    if tails.iter().any(|tail| entry::any_later(tail, last + 1)) {
        return Err(ReadError::Damaged(format!("entry {} of the journal is damaged", last + 1)));
    }
    Ok((payloads, last))
}

/// What payloads together make of each key. `None`: one is no payload.
pub(super) fn changes<'a>(payloads: impl IntoIterator<Item = &'a [u8]>) -> Option<Changes<'a>> {
    let mut changes = Changes::new();
    payloads.into_iter().try_for_each(|payload| ops::decode(payload, &mut changes))?;
    Some(changes)
}

impl Segment {
    /// The payloads of a file that was just written.
    pub(super) fn payloads(&self) -> Result<Vec<Vec<u8>>, ReadError> {
        let mut bytes = vec![0; usize::try_from(self.end).unwrap_or(0)];
        self.file.read(0, &mut bytes)?;
        let (mut rest, mut last, mut payloads) = (&bytes[..], 0, Vec::new());
        while let Some((sequence, payload, behind)) = entry::decode(rest) {
            payloads.push(payload.to_vec());
            (rest, last) = (behind, sequence);
        }
        match last == self.last {
            true => Ok(payloads),
            false => Err(ReadError::Damaged(format!("entry {} of the journal is damaged", last + 1))),
        }
    }

    /// May be written over from now on.
    pub(super) fn reused(mut self) -> Self {
        self.end = 0;
        // Should it not shrink, it is larger than it needs to be, no more.
        if self.length > SEGMENT && self.file.set_len(SEGMENT).is_ok() {
            self.length = SEGMENT;
        }
        self
    }
}

impl Journal {
    /// Goes on after the entry `last`, in `active`, which is free.
    pub(super) fn new(active: Segment, last: u64) -> Self {
        Journal { active, next: last + 1, buffer: Vec::new() }
    }

    /// Whether the next entry, of about `payload` bytes, should go to another file.
    pub(super) fn is_full(&self, payload: usize) -> bool {
        self.active.end > 0 && self.active.end + entry::size(payload) as u64 > SEGMENT
    }

    /// Whether nothing was written since the last [`Journal::rotate`].
    pub(super) fn is_empty(&self) -> bool {
        self.active.end == 0
    }

    /// The file that is being written.
    pub(super) fn into_active(self) -> Segment {
        self.active
    }

    /// Goes on in `free`; returns the file that is full.
    pub(super) fn rotate(&mut self, free: Segment) -> Segment {
        std::mem::replace(&mut self.active, free)
    }

    /// Writes an entry and makes it durable.
    ///
    /// # Errors
    /// Whether it was written is unknown. It must not be followed by another.
    pub(super) fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        self.buffer.clear();
        entry::encode(self.next, payload, &mut self.buffer);
        let end = self.active.end + self.buffer.len() as u64;
        if end > self.active.length {
            // Larger than a file: it has one of its own, which is cut again afterwards.
            self.active.file.set_len(end)?;
            self.active.length = end;
        }
        self.active.file.write(self.active.end, &self.buffer)?;
        self.active.file.sync_data()?;
        self.active.end = end;
        self.active.last = self.next;
        self.next += 1;
        Ok(())
    }
}

/// Files on their way between the writer and the database.
#[derive(Default)]
pub(super) struct Pool {
    /// May be written over.
    pub(super) free: Vec<Segment>,
    /// Full, oldest first.
    pub(super) full: VecDeque<Segment>,
    /// Files that exist.
    pub(super) made: u64,
}
