//! Reads the files that options name: certificates, keys, tokens.
use rustix::fs::{Mode, OFlags, open};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The maximum size of a file: a larger one was named by mistake.
const LARGEST: u64 = 16 << 20;

/// The content of a regular file. Other files are refused: reading a pipe blocks until somebody writes to it, and
/// returns its content only once, but files are read again when they change.
///
/// # Errors
/// Why it cannot be read.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    // Opening a pipe must not block.
    let file = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    let file = File::from(file.map_err(|error| std::io::Error::from(error).to_string())?);
    let data = file.metadata().map_err(|error| error.to_string())?;
    if !data.is_file() {
        return Err("it is not a regular file".into());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    match bytes.len() as u64 > LARGEST {
        true => Err(format!("it has more than {LARGEST} bytes, which is too large")),
        false => Ok(bytes),
    }
}

/// As [`read`], for text.
///
/// # Errors
/// As [`read`]; or it is not UTF-8.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    String::from_utf8(read(path)?).map_err(|_| "it is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        assert_eq!((read_text(&path("file")), read(&path("link"))), (Ok("text".into()), Ok(b"text".to_vec())));
        assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        for other in [path("pipe"), directory.path().to_owned(), "/dev/zero".into()] {
            assert_eq!(read(&other), Err("it is not a regular file".into()), "{}", other.display());
        }
        File::create(path("large")).unwrap().set_len(LARGEST + 1).unwrap();
        assert!(read(&path("large")).unwrap_err().ends_with("too large"));
        std::fs::write(path("binary"), [0xff]).unwrap();
        assert_eq!(read_text(&path("binary")), Err("it is not UTF-8".into()));
        assert!(read(&path("none")).unwrap_err().contains("No such file"));
    }
}
