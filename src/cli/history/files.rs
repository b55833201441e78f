//! The files of an audit trail as one sequence of lines, the oldest file first. One line is in memory at a time.
use super::audit::time_of;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The longest line, ten times as long as one of the server with every text at its limit and escaped.
const MAX_LINE: usize = 128 << 10;
/// The size of the buffer, in bytes: enough for the first lines, whose times determine the order of the files.
const BUFFER: usize = 256 << 10;
/// The first bytes of compressed files: gzip, zstd, xz.
const COMPRESSED: [&[u8]; 3] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ"];

/// A part of the trail.
pub(super) struct TrailFile {
    /// For people.
    pub(super) name: String,
    reader: BufReader<Box<dyn Read>>,
    line: u64,
    buffer: Vec<u8>,
}

/// A line as it was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    Line(&'a [u8]),
    /// The last one, without its end.
    Incomplete(&'a [u8]),
    TooLong,
}

/// Opens the files and puts them in the order of their first lines. `-` is standard input; a file that is named twice is
/// read once.
///
/// # Errors
/// The first file that cannot be read or is compressed, and why.
pub(super) fn open(paths: &[PathBuf]) -> Result<Vec<TrailFile>, (String, io::Error)> {
    let (mut seen, mut files) = (Vec::new(), Vec::new());
    for path in paths {
        let name = path.display().to_string();
        match open_one(path, &mut seen) {
            Ok(Some(reader)) => {
                let mut file = TrailFile { name, reader, line: 0, buffer: Vec::new() };
                let first = file.first_time().map_err(|error| (file.name.clone(), error))?;
                files.push((first, file));
            }
            Ok(None) => {}
            Err(error) => return Err((name, error)),
        }
    }
    files.sort_by_key(|(first, _)| *first);
    Ok(files.into_iter().map(|(_, file)| file).collect())
}

fn open_one(path: &Path, seen: &mut Vec<(u64, u64)>) -> io::Result<Option<BufReader<Box<dyn Read>>>> {
    let reader: Box<dyn Read> = if path == Path::new("-") {
        if seen.contains(&(0, 0)) {
            return Ok(None);
        }
        seen.push((0, 0));
        Box::new(io::stdin())
    } else {
        let file = File::open(path)?;
        let found = file.metadata()?;
        if seen.contains(&(found.dev(), found.ino())) {
            return Ok(None);
        }
        seen.push((found.dev(), found.ino()));
        Box::new(file)
    };
    Ok(Some(BufReader::with_capacity(BUFFER, reader)))
}

impl TrailFile {
    fn first_time(&mut self) -> io::Result<Option<jiff::Timestamp>> {
        let start = self.reader.fill_buf()?;
        if COMPRESSED.iter().any(|magic| start.starts_with(magic)) {
            let why = "it is compressed: pass its text through standard input, as in `zcat FILE | pausewatch history --audit -`";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(start.split(|&byte| byte == b'\n').find_map(time_of))
    }

    /// The next line and its number; `None`: there are no more.
    ///
    /// # Errors
    /// The file cannot be read any further.
    pub(super) fn next_line(&mut self) -> io::Result<Option<(u64, Found<'_>)>> {
        self.buffer.clear();
        let read = (&mut self.reader).take(MAX_LINE as u64).read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(None);
        }
        self.line += 1;
        if self.buffer.pop_if(|last| *last == b'\n').is_some() {
            return Ok(Some((self.line, Found::Line(&self.buffer))));
        }
        if read < MAX_LINE {
            return Ok(Some((self.line, Found::Incomplete(&self.buffer))));
        }
        self.reader.skip_until(b'\n')?;
        Ok(Some((self.line, Found::TooLong)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(directory: &Path, name: &str, contents: &[u8]) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    fn started(hour: u32) -> String {
        format!("{{\"time\":\"2026-11-22T{hour:02}:00:00Z\",\"event\":\"server_started\"}}\n")
    }

    #[test]
    fn files_are_read_in_the_order_of_their_times_each_once() {
        let directory = tempfile::tempdir().unwrap();
        let paths = [
            file(directory.path(), "a", started(9).as_bytes()),
            file(directory.path(), "a.1", format!("damaged\n{}", started(8)).as_bytes()),
            file(directory.path(), "a.2", started(7).as_bytes()),
            directory.path().join("a.1"),
        ];
        let files = open(&paths).unwrap();
        let names: Vec<_> = files.iter().map(|file| file.name.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["a.2", "a.1", "a"]);
    }

    #[test]
    fn a_file_that_cannot_be_read_or_is_compressed_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let compressed = file(directory.path(), "a.gz", b"\x1f\x8b\x08\0");
        let failed = |path: &Path| open(&[path.to_owned()]).err().unwrap();
        assert!(failed(&compressed).1.to_string().contains("zcat"));
        assert!(failed(&directory.path().join("none")).0.ends_with("none"));
        assert_eq!(failed(directory.path()).1.kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn lines_have_their_numbers_however_long_or_short_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let long = "x".repeat(MAX_LINE);
        let path = file(directory.path(), "a", format!("one\n\n{long}{long}y\nfour\nfive").as_bytes());
        let mut file = open(&[path]).unwrap().remove(0);
        let expected = [
            (1, Found::Line(b"one")),
            (2, Found::Line(b"")),
            (3, Found::TooLong),
            (4, Found::Line(b"four")),
            (5, Found::Incomplete(b"five")),
        ];
        for expected in expected {
            assert_eq!(file.next_line().unwrap(), Some(expected));
            assert!(file.buffer.capacity() <= 2 * MAX_LINE);
        }
        assert_eq!(file.next_line().unwrap(), None);
    }
}
