//! The journal: what was committed and is not yet in the database, in a few files that are written over and over.
//!
//! A database makes a commit durable by writing whole pages; a journal does it with one short write. Its files are
//! filled with zeros beforehand, so that an fdatasync has no change of the file to write but the data, and a disk that
//! is full cannot stop it.
//!
//! - J1: entries have consecutive numbers across the files. An entry is written only when the one before is durable:
//!   so a number that is missing before a later one was lost, and the store is damaged.
//! - J2: a file is written over only when the database holds all that is in it.
//! - J3: what is refused for want of space has written nothing of the entry: the room is made first.
use super::disk::{Disk, durable};
use super::entry;
use super::segments::{self, SEGMENT, Segment};
use crate::coordinator::store::ops::{self, Changes};
use std::collections::BTreeMap;
use std::io;

/// A file is cut at most once in a round: twice in a row while it is read is not to be expected.
const TRIES_OF_A_FILE: u32 = 10;

/// All files of the journal that the writer has; those that the database is taking up are elsewhere.
pub(super) struct Journal {
    active: Segment,
    seed: u64,
    next: u64,
    buffer: Vec<u8>,
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

/// The payloads that the database does not contain yet, in order, and the number of the last entry. Changes nothing.
/// `applied`: the number of the last entry that the database holds.
pub(super) fn read(disk: &dyn Disk, seed: u64, applied: u64) -> Result<(Vec<Vec<u8>>, u64), ReadError> {
    if let Some(which) = segments::missing(disk)? {
        return Err(ReadError::Damaged(which));
    }
    let mut contents = Vec::new();
    for number in segments::numbers(disk)? {
        contents.push((number, segments::contents(disk, number)?));
    }
    let mut entries = Vec::new();
    let mut tails = Vec::new();
    for (number, bytes) in &contents {
        let (mut end, mut expected) = (0, None);
        while let Some(entry) = entry::decode(seed, bytes, end, expected) {
            entries.push(entry);
            (end, expected) = (entry.end, Some(entry.sequence + 1));
        }
        if end == 0 && entry::is_overwritten(bytes) {
            return Err(ReadError::Damaged(format!("file journal-{number} was overwritten")));
        }
        tails.push((bytes, end));
    }
    entries.retain(|entry| entry.sequence > applied);
    entries.sort_unstable_by_key(|entry| entry.sequence);
    let mut last = applied;
    let mut payloads = Vec::new();
    for entry in entries {
        if entry.sequence != last + 1 {
            return Err(ReadError::Damaged(format!("the journal lacks entry {}", last + 1)));
        }
        last = entry.sequence;
        payloads.push(entry.payload.to_vec());
    }
    // The next entry may have been torn, and was not acknowledged then. One after it was written only if it was.
    if tails.iter().any(|(bytes, end)| entry::any_later(seed, bytes, *end, last + 1)) {
        return Err(ReadError::Damaged(format!("entry {} of the journal is damaged", last + 1)));
    }
    Ok((payloads, last))
}

/// The present content of the files, while other threads write to them.
pub(super) fn files(disk: &dyn Disk) -> io::Result<Vec<Vec<u8>>> {
    let contents = |number| {
        for _ in 0..TRIES_OF_A_FILE {
            match segments::contents(disk, number) {
                // It was cut after its length was read: nothing in it was needed.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                done => return done,
            }
        }
        segments::contents(disk, number)
    };
    segments::numbers(disk)?.into_iter().map(contents).collect()
}

/// The payloads behind entry `applied`, as long as their numbers follow each other, and the number of the last one. What
/// was being written while the files were read, and what is of an earlier round, does not.
pub(super) fn follow(files: &[Vec<u8>], seed: u64, applied: u64) -> (Vec<Vec<u8>>, u64) {
    let mut entries = BTreeMap::new();
    for bytes in files {
        let (mut end, mut expected) = (0, None);
        while let Some(entry) = entry::decode(seed, bytes, end, expected) {
            entries.insert(entry.sequence, entry.payload);
            (end, expected) = (entry.end, Some(entry.sequence + 1));
        }
    }
    let payloads: Vec<_> =
        (applied + 1..).map_while(|number| entries.get(&number).map(|bytes| bytes.to_vec())).collect();
    let last = applied + payloads.len() as u64;
    (payloads, last)
}

/// The payloads of a file that was just written.
pub(super) fn payloads(segment: &Segment, seed: u64) -> Result<Vec<Vec<u8>>, ReadError> {
    let bytes = segment.read()?;
    let (mut end, mut last, mut payloads) = (0, None, Vec::new());
    while let Some(entry) = entry::decode(seed, &bytes, end, last.map(|last| last + 1)) {
        payloads.push(entry.payload.to_vec());
        (end, last) = (entry.end, Some(entry.sequence));
    }
    match last == Some(segment.last) {
        true => Ok(payloads),
        false => Err(ReadError::Damaged(format!("entry {} of the journal is damaged", last.unwrap_or(0) + 1))),
    }
}

/// The result of all payloads for each key. `None`: a payload is invalid.
pub(super) fn changes<'a>(payloads: impl IntoIterator<Item = &'a [u8]>) -> Option<Changes<'a>> {
    let mut changes = Changes::new();
    payloads.into_iter().try_for_each(|payload| ops::decode(payload, &mut changes))?;
    Some(changes)
}

fn offset(at: u64) -> usize {
    usize::try_from(at).expect("files of the journal are read into memory")
}

impl Journal {
    /// Goes on after the entry `last`, in `active`, which is free.
    pub(super) fn new(active: Segment, seed: u64, last: u64) -> Self {
        Journal { active, seed, next: last + 1, buffer: Vec::new() }
    }

    fn end_with(&self, payload: usize) -> u64 {
        entry::end(offset(self.active.end), payload) as u64
    }

    /// Whether the next entry, of about `payload` bytes, should go to another file.
    pub(super) fn is_full(&self, payload: usize) -> bool {
        self.active.end > 0 && self.end_with(payload) > SEGMENT
    }

    /// Whether one of the next entries may have to go to another file.
    pub(super) fn is_half_full(&self) -> bool {
        self.active.end > SEGMENT / 2
    }

    /// The number of the last entry.
    pub(super) fn last(&self) -> u64 {
        self.next - 1
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

    /// Makes room for an entry that is larger than a file: it has one of its own, which is cut again afterwards.
    ///
    /// # Errors
    /// Nothing was written of the entry. If there is no space, another may follow.
    pub(super) fn make_room(&mut self, payload: usize) -> io::Result<()> {
        let end = self.end_with(payload);
        match end > self.active.length() {
            true => self.active.grow(end),
            false => Ok(()),
        }
    }

    /// Writes an entry, for which there is room, and makes it durable; calls `written` in between.
    ///
    /// # Errors
    /// Whether it was written is unknown. It must not be followed by another.
    pub(super) fn append(&mut self, payload: &[u8], written: &dyn Fn()) -> io::Result<()> {
        self.buffer.clear();
        entry::encode(self.seed, offset(self.active.end), self.next, payload, &mut self.buffer);
        self.active.file.write(self.active.end, &self.buffer)?;
        written();
        durable(&*self.active.file)?;
        self.active.end += self.buffer.len() as u64;
        self.active.last = self.next;
        self.next += 1;
        Ok(())
    }
}
