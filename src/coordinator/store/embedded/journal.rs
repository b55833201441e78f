//! The journal: commits that are not yet in the database, in a few files that are overwritten again and again.
//!
//! A database makes a commit durable by writing whole pages; a journal does it with one short write. Its files are
//! filled with zeros beforehand, so an fdatasync has to write nothing but the data, and a full disk cannot stop it. On
//! a copy-on-write file system, a full disk can stop the write; then the reserve is freed for it (`disk.rs`).
//!
//! - J1: entries have consecutive numbers across the files. An entry is written only when the previous one is durable.
//!   So if a number is missing before a later one, an entry was lost, and the store is damaged.
//! - J2: a file is overwritten only when the database contains all its entries.
//! - J3: if there is no space for an entry, nothing of it was written: its space is allocated first.
use super::disk::{Disk, durable, is_no_space};
use super::entry;
use super::segments::{self, SEGMENT, Segment};
use std::collections::BTreeMap;
use std::io;

/// How often a file is read again if it was truncated meanwhile, which happens at most once per round.
const TRIES_OF_A_FILE: u32 = 10;

/// The file of the journal that the writer has. The others are in the pool (`checkpoint.rs`).
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
    for (number, bytes) in &contents {
        let (mut end, mut expected) = (0, None);
        while let Some(entry) = entry::decode(seed, bytes, end, expected) {
            entries.push(entry);
            (end, expected) = (entry.end, Some(entry.sequence + 1));
        }
        if end == 0 && entry::is_overwritten(bytes) {
            return Err(ReadError::Damaged(format!("file journal-{number} was overwritten")));
        }
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
    // The entry after `last` may have been torn; then it was not acknowledged. The entry after that one is written only
    // when it is durable (J1), so any later entry shows that it was lost. Whole files are searched: where the first
    // entries of a file are lost, entries of an earlier round may have been read, which end behind the present ones.
    if contents.iter().any(|(_, bytes)| entry::any_later(seed, bytes, last + 1)) {
        return Err(ReadError::Damaged(format!("entry {} of the journal is damaged", last + 1)));
    }
    Ok((payloads, last))
}

/// The content of the files, while other threads write to them.
pub(super) fn files(disk: &dyn Disk) -> io::Result<Vec<Vec<u8>>> {
    let contents = |number| {
        for _ in 0..TRIES_OF_A_FILE {
            match segments::contents(disk, number) {
                // The file was truncated after its length was read, which happens only when nothing in it is needed.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                done => return done,
            }
        }
        segments::contents(disk, number)
    };
    segments::numbers(disk)?.into_iter().map(contents).collect()
}

/// The payloads after entry `applied`, as long as their numbers are consecutive, and the number of the last one. This
/// leaves out entries that were being written meanwhile, and those of an earlier round.
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

/// The payloads of a full file.
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

fn offset(at: u64) -> usize {
    usize::try_from(at).expect("files of the journal are read into memory")
}

impl Journal {
    /// A journal that continues after the entry `last`, in the free file `active`.
    pub(super) fn new(active: Segment, seed: u64, last: u64) -> Self {
        Journal { active, seed, next: last + 1, buffer: Vec::new() }
    }

    fn end_with(&self, payload: usize) -> u64 {
        entry::end(offset(self.active.end), payload) as u64
    }

    /// Whether the next entry, of about `payload` bytes, should be written to another file.
    pub(super) fn is_full(&self, payload: usize) -> bool {
        self.active.end > 0 && self.end_with(payload) > SEGMENT
    }

    /// Whether one of the next entries may have to be written to another file.
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

    /// Continues in the file `free`; returns the full file.
    pub(super) fn rotate(&mut self, free: Segment) -> Segment {
        std::mem::replace(&mut self.active, free)
    }

    /// Makes space for an entry that is larger than a file: it gets a file of its own, which is truncated afterwards.
    ///
    /// # Errors
    /// Nothing of the entry was written. If the error is a lack of space, another entry may follow.
    pub(super) fn make_room(&mut self, payload: usize) -> io::Result<()> {
        let end = self.end_with(payload);
        match end > self.active.length() {
            true => self.active.grow(end),
            false => Ok(()),
        }
    }

    /// Writes an entry, for which [`Journal::make_room`] has made space, calls `written`, and makes the entry durable.
    /// A copy-on-write file system needs new space even so: if there is none, `make_space` is called, and if it has
    /// freed some, the entry is written again.
    ///
    /// # Errors
    /// It is unknown whether the entry was written. No other entry may follow.
    pub(super) fn append(
        &mut self,
        payload: &[u8],
        make_space: &dyn Fn() -> bool,
        written: &dyn Fn(),
    ) -> io::Result<()> {
        self.buffer.clear();
        entry::encode(self.seed, offset(self.active.end), self.next, payload, &mut self.buffer);
        match self.active.file.write(self.active.end, &self.buffer) {
            Err(error) if is_no_space(&error) && make_space() => {
                self.active.file.write(self.active.end, &self.buffer)?;
            }
            done => done?,
        }
        written();
        durable(&*self.active.file)?;
        self.active.end += self.buffer.len() as u64;
        self.active.last = self.next;
        self.next += 1;
        Ok(())
    }
}
