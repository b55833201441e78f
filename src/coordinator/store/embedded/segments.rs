//! The files of the journal: created before they are needed, and never deleted.
//!
//! - F1: a file exists only when all of it was written and synced once, so that its blocks are allocated.
//! - F2: a database has a journal. If one of the first files, or a file between two others, is missing, it was lost.
use super::disk::{Disk, durable};
use redb::StorageBackend;
use std::collections::VecDeque;
use std::io;

/// The size of a file in bytes. The size is small, so that the files fit on small disks; under load there are more
/// files.
pub(super) const SEGMENT: u64 = 1 << 20;
/// The number of files at the start.
const SEGMENTS: u64 = 2;
/// The maximum number of files: 8 MiB hold many thousand changes, while the database applies earlier ones.
pub(super) const MAX_SEGMENTS: u64 = 8;

/// One file of the journal.
pub(super) struct Segment {
    pub(super) file: Box<dyn StorageBackend>,
    /// The size of the file in bytes.
    length: u64,
    /// The offset of the next entry.
    pub(super) end: u64,
    /// The number of its latest entry.
    pub(super) last: u64,
}

/// Files that the writer and the checkpoint thread exchange.
#[derive(Default)]
pub(super) struct Pool {
    /// Files that may be overwritten.
    pub(super) free: Vec<Segment>,
    /// Full files, oldest first.
    pub(super) full: VecDeque<Segment>,
    /// The number of the next file to create.
    pub(super) next_number: u64,
}

/// The numbers of the existing files.
pub(super) fn numbers(disk: &dyn Disk) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for number in 0..MAX_SEGMENTS {
        if disk.has_segment(number)? {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

fn read(file: &dyn StorageBackend, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?];
    file.read(0, &mut bytes)?;
    Ok(bytes)
}

/// The content of a file.
pub(super) fn contents(disk: &dyn Disk, number: u64) -> io::Result<Vec<u8>> {
    let file = disk.segment(number)?;
    read(&*file, file.len()?)
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Whether nothing was ever written to the journal.
pub(super) fn are_blank(disk: &dyn Disk) -> io::Result<bool> {
    for number in numbers(disk)? {
        if !is_blank(&contents(disk, number)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A new file full of zeros.
pub(super) fn create(disk: &dyn Disk, number: u64) -> io::Result<Segment> {
    disk.make_segment(number, SEGMENT)?;
    open(disk, number)
}

/// Creates the first files of a store, if there are none.
pub(super) fn make(disk: &dyn Disk) -> io::Result<()> {
    for number in 0..SEGMENTS {
        if !disk.has_segment(number)? {
            disk.make_segment(number, SEGMENT)?;
        }
    }
    Ok(())
}

/// All files, as free ones: the database must contain all their entries.
pub(super) fn take(disk: &dyn Disk) -> io::Result<Pool> {
    let mut pool = Pool::default();
    for number in numbers(disk)? {
        pool.free.push(open(disk, number)?.reused());
        pool.next_number = number + 1;
    }
    Ok(pool)
}

fn open(disk: &dyn Disk, number: u64) -> io::Result<Segment> {
    let file = disk.segment(number)?;
    Ok(Segment { length: file.len()?, file, end: 0, last: 0 })
}

/// The file that was lost or truncated.
pub(super) fn missing(disk: &dyn Disk) -> io::Result<Option<String>> {
    let numbers = numbers(disk)?;
    let expected = numbers.last().map_or(0, |last| last + 1).max(SEGMENTS);
    if let Some(gone) = (0..expected).find(|number| !numbers.contains(number)) {
        return Ok(Some(format!("file journal-{gone} is gone")));
    }
    for number in numbers {
        if disk.segment(number)?.len()? < SEGMENT {
            return Ok(Some(format!("file journal-{number} was cut")));
        }
    }
    Ok(None)
}

impl Segment {
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The bytes that were written since the file was free.
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        read(&*self.file, self.end)
    }

    /// Makes the file larger, with durable zeros up to `length`.
    ///
    /// # Errors
    /// The size of the file counts as unchanged.
    pub(super) fn grow(&mut self, length: u64) -> io::Result<()> {
        let zeros = vec![0; usize::try_from(length - self.length).expect("what grows comes from memory")];
        let grown = self.file.write(self.length, &zeros).and_then(|()| durable(&*self.file));
        match &grown {
            Ok(()) => self.length = length,
            Err(_) => _ = self.file.set_len(self.length),
        }
        grown
    }

    /// The file may be overwritten from now on.
    pub(super) fn reused(mut self) -> Self {
        self.end = 0;
        // If it cannot be truncated, it only takes more space than it needs.
        if self.length > SEGMENT && self.file.set_len(SEGMENT).is_ok() {
            self.length = SEGMENT;
        }
        self
    }
}
