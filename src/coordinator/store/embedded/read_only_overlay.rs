//! A read-only view of a store: it can be opened as a server would open it, and nothing in the directory changes.
//!
//! Opening a store writes to it: the journal is applied, and the database repairs what a crash has left. Here all
//! writes stay in memory, above the files.
use super::disk::Disk;
use super::file_names::DATABASE;
use redb::StorageBackend;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const BLOCK: u64 = 4_096;

/// The files in a directory that no process changes meanwhile.
#[derive(Debug)]
pub(super) struct ReadOnlyOverlay {
    path: PathBuf,
}

/// A file, and what was written over it.
#[derive(Debug)]
struct Covered {
    file: File,
    /// The number of bytes of the file that are still valid: the rest was truncated.
    beneath: Mutex<u64>,
    above: Mutex<Above>,
}

#[derive(Debug)]
struct Above {
    length: u64,
    blocks: HashMap<u64, Vec<u8>>,
}

impl ReadOnlyOverlay {
    pub(super) fn before(path: &Path) -> Self {
        ReadOnlyOverlay { path: path.to_owned() }
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn StorageBackend>> {
        let file = File::open(self.path.join(name))?;
        let length = file.metadata()?.len();
        let above = Mutex::new(Above { length, blocks: HashMap::new() });
        Ok(Box::new(Covered { file, beneath: Mutex::new(length), above }))
    }
}

fn read_only_error<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "a file of the store is missing, and the store is open read-only"))
}

impl Disk for ReadOnlyOverlay {
    fn has_database(&self) -> io::Result<bool> {
        self.path.join(DATABASE).try_exists()
    }

    fn database(&self) -> io::Result<Box<dyn StorageBackend>> {
        self.open(DATABASE)
    }

    fn draft(&self) -> io::Result<Box<dyn StorageBackend>> {
        read_only_error()
    }

    fn adopt_draft(&self) -> io::Result<()> {
        read_only_error()
    }

    fn segment(&self, number: u64) -> io::Result<Box<dyn StorageBackend>> {
        self.open(&format!("journal-{number}"))
    }

    fn make_segment(&self, _number: u64, _zeros: u64) -> io::Result<()> {
        read_only_error()
    }

    fn has_segment(&self, number: u64) -> io::Result<bool> {
        self.path.join(format!("journal-{number}")).try_exists()
    }

    fn is_low(&self) -> bool {
        false
    }

    fn release_reserve(&self) -> bool {
        false
    }

    fn restore_reserve(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Covered {
    fn above(&self) -> std::sync::MutexGuard<'_, Above> {
        self.above.lock().expect("nothing panics while it holds the blocks")
    }

    /// A block of the file, with zeros beyond its end.
    fn block(&self, number: u64) -> io::Result<Vec<u8>> {
        let mut block = vec![0; BLOCK as usize];
        let beneath = *self.beneath.lock().expect("nothing panics while it holds a number");
        let there = beneath.saturating_sub(number * BLOCK).min(BLOCK) as usize;
        self.file.read_exact_at(&mut block[..there], number * BLOCK)?;
        Ok(block)
    }

    /// Splits `length` bytes at `offset` at the limits of blocks. Calls `part` for each part with the number of its
    /// block, its offset in the block, and its range in the whole.
    fn parts(
        offset: u64,
        length: usize,
        mut part: impl FnMut(u64, usize, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let start = (at % BLOCK) as usize;
            let size = (BLOCK as usize - start).min(length - done);
            part(at / BLOCK, start, done..done + size)?;
            done += size;
        }
        Ok(())
    }
}

impl StorageBackend for Covered {
    fn len(&self) -> io::Result<u64> {
        Ok(self.above().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let above = self.above();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > above.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::parts(offset, out.len(), |number, start, range| {
            let size = range.len();
            match above.blocks.get(&number) {
                Some(block) => out[range].copy_from_slice(&block[start..start + size]),
                None => out[range].copy_from_slice(&self.block(number)?[start..start + size]),
            }
            Ok(())
        })
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut above = self.above();
        if length < above.length {
            let mut beneath = self.beneath.lock().expect("nothing panics while it holds a number");
            *beneath = length.min(*beneath);
            above.blocks.retain(|number, _| number * BLOCK < length);
            let kept = (length % BLOCK) as usize;
            if let Some(last) = above.blocks.get_mut(&(length / BLOCK)) {
                last[kept..].fill(0);
            }
        }
        above.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut above = self.above();
        above.length = above.length.max(offset + data.len() as u64);
        Self::parts(offset, data.len(), |number, start, range| {
            let block = match above.blocks.entry(number) {
                std::collections::hash_map::Entry::Occupied(block) => block.into_mut(),
                std::collections::hash_map::Entry::Vacant(place) => place.insert(self.block(number)?),
            };
            block[start..start + range.len()].copy_from_slice(&data[range]);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_read_back_and_the_file_does_not_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(DATABASE);
        let before: Vec<u8> = (0..10_000_u32).map(|byte| byte as u8).collect();
        std::fs::write(&path, &before).unwrap();
        let file = ReadOnlyOverlay::before(directory.path()).database().unwrap();
        let mut expected = before.clone();
        let read = |file: &dyn StorageBackend, length: usize| {
            let mut bytes = vec![0; length];
            file.read(0, &mut bytes).map(|()| bytes)
        };
        assert_eq!(read(&*file, 10_000).unwrap(), before);
        file.write(4_000, &[7; 200]).unwrap();
        expected[4_000..4_200].fill(7);
        assert_eq!(read(&*file, 10_000).unwrap(), expected);
        // Cut and made longer again, there are zeros.
        file.set_len(4_100).unwrap();
        assert!(read(&*file, 4_101).is_err());
        file.set_len(12_000).unwrap();
        expected.resize(12_000, 0);
        expected[4_100..].fill(0);
        assert_eq!(read(&*file, 12_000).unwrap(), expected);
        file.write(11_990, &[9; 20]).unwrap();
        assert_eq!(file.len().unwrap(), 12_010);
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}
