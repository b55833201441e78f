//! The files of the trail.
//!
//! - F1: if a full file cannot be rotated, lines are still written, to the same file.
use crate::server::background_writer::Sink;
use crate::server::links::{end_of_links, no_follow};
use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where the trail is, and how much of it is kept.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file.
    pub path: PathBuf,
    /// The size in bytes at which the file is rotated.
    pub max_size: u64,
    /// The number of rotated files that are kept beside it, as `FILE.1` (the latest) to `FILE.KEEP`.
    pub keep: u32,
}

impl Config {
    /// Checks whether a trail could be opened and rotated. Changes no file.
    ///
    /// # Errors
    /// The obstacle.
    pub fn check(&self) -> Result<(), String> {
        check(&self.path)
    }
}

pub(super) struct Files {
    config: Config,
    file: File,
    size: u64,
    /// The size at which the next rotation is tried: after a failed one, it is more than `max_size`.
    full_at: u64,
    /// The last rotation has failed.
    stuck: bool,
    /// The last line is incomplete: its rest must be written to the same file.
    mid_line: bool,
    /// The last write has failed.
    failing: bool,
}

impl Files {
    pub(super) fn open(config: &Config) -> io::Result<Self> {
        let (file, size) = open(&config.path)?;
        let full_at = config.max_size;
        let config = config.clone();
        let mut files = Files { config, file, size, full_at, stuck: false, mid_line: false, failing: false };
        // An earlier process ended in the middle of a line.
        if size > 0 && !ends_with_a_line(&files.config.path)? {
            files.append(b"\n")?;
        }
        if let Err(error) = can_be_put_aside(&files.config.path) {
            files.say_stuck(&error);
        }
        Ok(files)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut path = self.config.path.clone().into_os_string();
        path.push(format!(".{number}"));
        path.into()
    }

    /// Switches to another file if the present one was moved away (logrotate) or is full.
    fn turn(&mut self, more: u64) -> io::Result<()> {
        if self.mid_line {
            return Ok(());
        }
        let ours = self.file.metadata()?;
        let there = fs::metadata(&self.config.path);
        let moved = there.as_ref().map_or(true, |there| (there.dev(), there.ino()) != (ours.dev(), ours.ino()));
        // The file is smaller than expected if another process truncated it.
        self.size = ours.len();
        if self.size <= self.config.max_size {
            self.full_at = self.config.max_size;
        }
        if !moved {
            if self.size == 0 || self.size + more <= self.full_at {
                return Ok(());
            }
            if let Err(error) = self.put_aside() {
                self.go_on(&error);
                return Ok(());
            }
            self.stuck = false;
        }
        let path = &self.config.path;
        let opened = open(path);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("begin another file: {error}"));
        (self.file, self.size) = opened.map_err(named)?;
        self.full_at = self.config.max_size;
        Ok(())
    }

    /// Rotates the full file, or removes it if none are kept.
    fn put_aside(&self) -> io::Result<()> {
        if self.config.keep == 0 {
            return fs::remove_file(&self.config.path);
        }
        // Renames only up to the first free number: a number that a failed attempt has freed must not cost the oldest
        // file.
        let is_free = |number: &u32| fs::symlink_metadata(self.numbered(*number)).is_err();
        let last = (1..self.config.keep).find(is_free).unwrap_or(self.config.keep);
        for number in (1..last).rev() {
            fs::rename(self.numbered(number), self.numbered(number + 1))?;
        }
        fs::rename(&self.config.path, self.numbered(1))
    }

    /// Continues in a full file. Rotation is tried again when the file has grown by another `max_size`, so that retries
    /// cost nothing.
    fn go_on(&mut self, error: &io::Error) {
        self.full_at = self.size.saturating_add(self.config.max_size);
        self.say_stuck(error);
    }

    /// Reports a failed rotation once, until rotation succeeds again.
    fn say_stuck(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.stuck, true) {
            tracing::warn!(path = %self.config.path.display(), %error, "{STUCK}");
        }
    }

    /// Writes line by line, so that a rotation never splits a line. Written lines are removed from `lines`.
    fn try_write(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        let mut written = 0;
        let mut outcome = Ok(());
        while written < lines.len() && outcome.is_ok() {
            outcome = self.turn(0).and_then(|()| {
                let rest = &lines[written..];
                let room = self.full_at.saturating_sub(self.size);
                // As many whole lines as fit, and at least one.
                let first = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
                let fits = &rest[..rest.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
                let end = fits.iter().rposition(|byte| *byte == b'\n').map_or(first, |end| end + 1);
                self.turn(end as u64)?;
                written += self.write_some(&lines[written..written + end])?;
                Ok(())
            });
        }
        lines.drain(..written);
        outcome
    }

    /// Writes as much as possible; an error only if nothing was written.
    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.size += count as u64;
                    self.mid_line = bytes[..count].last() != Some(&b'\n');
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Sink for Files {
    fn write(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        let outcome = self.try_write(lines);
        let path = self.config.path.display();
        match (&outcome, self.failing) {
            (Err(error), false) => {
                tracing::error!(%path, %error, "the audit trail cannot be written: its lines are buffered; free space, or make the file writable");
            }
            (Ok(()), true) => tracing::info!(%path, "the audit trail can be written again"),
            _ => {}
        }
        self.failing = outcome.is_err();
        outcome
    }

    fn retries_failed_writes(&self) -> bool {
        true
    }
}

const STUCK: &str = "the audit trail goes on in one file, however large: it cannot be put aside when it is full; let the \
                     server's user write to its directory";

/// Whether the file can be written and put aside, without a change to it.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let written = match fs::metadata(path) {
        Ok(metadata) => check_type(path, &metadata).and_then(|()| may(path, Access::WRITE_OK)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => can_be_put_aside(path),
        Err(error) => Err(error),
    };
    written.map_err(|error| error.to_string())?;
    can_be_put_aside(path).map_err(|error| format!("it cannot be put aside when it is full: its directory: {error}"))
}

/// Whether a full file can be renamed, as far as the permissions of its directory show.
fn can_be_put_aside(path: &Path) -> io::Result<()> {
    // A device such as /dev/full is not rotated.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Ok(());
    }
    let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    may(directory, Access::WRITE_OK | Access::EXEC_OK)
}

fn may(path: &Path, access: Access) -> io::Result<()> {
    Ok(accessat(CWD, path, access, AtFlags::EACCESS)?)
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let end = end_of_links(path.to_owned())?;
    // Opening a named pipe would otherwise wait until somebody reads it.
    let flags = OFlags::NONBLOCK.bits().cast_signed() | no_follow(&end);
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(end);
    // The type is checked first: the error of opening a pipe without a reader does not say what is wrong.
    if let Ok(metadata) = opened.as_ref().map_or_else(|_| fs::metadata(path), File::metadata) {
        check_type(path, &metadata)?;
    }
    let file = opened?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.mode() & 0o077 != 0 {
        let mode = format!("{:o}", metadata.mode() & 0o777);
        tracing::warn!(path = %path.display(), mode, "the file of the audit trail is not for its owner alone: chmod 600");
    }
    Ok((file, metadata.len()))
}

/// Refuses files that may keep their writer waiting. A regular file and a character device accept lines at any time; a
/// named pipe accepts them only while it is read.
fn check_type(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let file_type = metadata.file_type();
    // Standard error or output of a container is a pipe without a name, which is read by the container's log.
    let is_own_pipe = file_type.is_fifo() && fs::canonicalize(path).is_err();
    match file_type {
        _ if file_type.is_file() || file_type.is_char_device() || is_own_pipe => Ok(()),
        _ if file_type.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a regular file nor a character device")),
    }
}

fn ends_with_a_line(path: &Path) -> io::Result<bool> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = match File::open(path) {
        // The file may be writable but not readable.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(true),
        file => file?,
    };
    // A device such as /dev/full has no last line.
    if !file.metadata()?.is_file() {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn files(directory: &Path, max_size: u64, keep: u32) -> Files {
        Files::open(&Config { path: directory.join("audit.log"), max_size, keep }).unwrap()
    }

    fn write(files: &mut Files, lines: &str) {
        let mut lines = lines.as_bytes().to_vec();
        files.write(&mut lines).unwrap();
        assert!(lines.is_empty());
    }

    fn read(directory: &Path) -> Vec<(String, String)> {
        let mut found: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap()))
            .collect();
        found.sort();
        found
    }

    fn expect(directory: &Path, expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        assert_eq!(read(directory), expected);
    }

    #[test]
    fn full_files_are_kept_and_no_line_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = files(directory.path(), 10, 2);
        write(&mut files, "one\ntwo\nthree\n");
        expect(directory.path(), &[("audit.log", "three\n"), ("audit.log.1", "one\ntwo\n")]);
        write(&mut files, "four\na line that is longer than a file\nfive\n");
        expect(
            directory.path(),
            &[
                ("audit.log", "five\n"),
                ("audit.log.1", "a line that is longer than a file\n"),
                ("audit.log.2", "four\n"),
            ],
        );
        let mode = fs::metadata(directory.path().join("audit.log")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "for its owner alone");
    }

    #[test]
    fn a_file_moved_by_logrotate_is_left_and_a_truncated_one_is_continued() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = files(directory.path(), 1_000, 2);
        write(&mut files, "one\n");
        fs::rename(directory.path().join("audit.log"), directory.path().join("moved")).unwrap();
        write(&mut files, "two\n");
        expect(directory.path(), &[("audit.log", "two\n"), ("moved", "one\n")]);
        File::create(directory.path().join("audit.log")).unwrap();
        write(&mut files, "three\n");
        expect(directory.path(), &[("audit.log", "three\n"), ("moved", "one\n")]);
    }

    #[test]
    fn a_line_that_was_not_finished_is_not_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("audit.log"), "{\"half").unwrap();
        write(&mut files(directory.path(), 1_000, 2), "one\n");
        expect(directory.path(), &[("audit.log", "{\"half\none\n")]);
    }

    /// A path in the way of the full file: a directory that has something in it cannot be replaced.
    fn in_the_way(directory: &Path) -> PathBuf {
        let path = directory.join("audit.log.1");
        fs::create_dir_all(path.join("in the way")).unwrap();
        path
    }

    #[test]
    fn a_file_that_cannot_be_put_aside_is_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let obstacle = in_the_way(directory.path());
        let mut files = files(directory.path(), 10, 1);
        for line in ["one\n", "two\n", "three\n", "four\n"] {
            write(&mut files, line);
        }
        assert!(files.stuck && !files.failing);
        assert_eq!(fs::read_to_string(directory.path().join("audit.log")).unwrap(), "one\ntwo\nthree\nfour\n");
        // It is tried again, when as much more has come.
        fs::remove_dir_all(obstacle).unwrap();
        write(&mut files, "five\nsix\n");
        assert!(!files.stuck);
        let aside = fs::read_to_string(directory.path().join("audit.log.1")).unwrap();
        let new = fs::read_to_string(directory.path().join("audit.log")).unwrap();
        assert_eq!(aside + &new, "one\ntwo\nthree\nfour\nfive\nsix\n");
        assert!(new.len() <= 10, "{new:?}");
    }

    #[test]
    fn no_file_is_lost_to_a_number_that_is_free() {
        let directory = tempfile::tempdir().unwrap();
        // As a rotation leaves them that was broken off.
        for (number, text) in [(2, "two\n"), (3, "three\n")] {
            fs::write(directory.path().join(format!("audit.log.{number}")), text).unwrap();
        }
        let mut files = files(directory.path(), 4, 3);
        write(&mut files, "old\nnew\n");
        let expected =
            [("audit.log", "new\n"), ("audit.log.1", "old\n"), ("audit.log.2", "two\n"), ("audit.log.3", "three\n")];
        expect(directory.path(), &expected);
    }

    #[test]
    fn a_full_disk_keeps_the_lines() {
        let full = Config { path: "/dev/full".into(), max_size: 1_000, keep: 0 };
        let mut lines = b"one\n".to_vec();
        Files::open(&full).unwrap().write(&mut lines).unwrap_err();
        assert_eq!(lines, b"one\n");
    }
}
