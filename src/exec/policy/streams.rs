//! The standard streams of a program that is to leave the sandbox. Outside, it could open again what they are, with more rights than the
//! sandboxed process that opened them had: as `/dev/stdin`, `/dev/stdout` and `/dev/stderr`.
use super::reach::Reach;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The names of the three, in messages.
const NAMES: [&str; 3] = ["standard input", "standard output", "standard error"];

/// What one of the standard streams of a process is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Its kind.
    pub kind: StreamKind,
    /// The path of what is open, if it has one.
    pub path: PathBuf,
    /// Whether it is open for writing.
    pub is_writable: bool,
    /// Whether the user could open it for writing outside the sandbox.
    pub user_can_write: bool,
    /// Its device and inode.
    pub identity: (u64, u64),
}

/// The kind of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamKind {
    /// Not open, or unknown.
    #[default]
    Closed,
    /// A pipe or socket without a path.
    Pipe,
    /// A terminal.
    Terminal,
    /// `/dev/null` or another device that stores nothing.
    Null,
    /// A file with a path: regular, a device, or a named pipe.
    File,
    /// A directory, or anything else.
    Other,
}

impl Stream {
    /// Whether both are the same open file. (Its path may have changed meanwhile.)
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let data = |stream: &Self| (stream.kind, stream.is_writable, stream.identity);
        data(self) == data(other)
    }

    /// Whether commands could open it for writing too.
    fn is_in_reach(&self, reach: &Reach) -> bool {
        // The path may be that of another file in another mount namespace.
        let is_this =
            |path: &Path| fs::symlink_metadata(path).is_ok_and(|data| (data.dev(), data.ino()) == self.identity);
        reach.holds(&self.path) && is_this(&self.path)
    }
}

/// Why a program with these streams must not leave the sandbox.
pub(super) fn objection(streams: &[Stream], reach: &Reach) -> Option<String> {
    let [input, output, error] = streams else { return Some("its standard streams are unknown".to_owned()) };
    if let Some((_, name)) = streams.iter().zip(NAMES).find(|(stream, _)| stream.kind == StreamKind::Closed) {
        return Some(format!("its {name} is closed"));
    }
    let is_unwritable = |(stream, _): &(&Stream, &str)| !stream.is_writable || stream.kind == StreamKind::Other;
    if let Some((_, name)) = [output, error].into_iter().zip(NAMES[1..].iter().copied()).find(is_unwritable) {
        return Some(format!("its {name} is not open for writing"));
    }
    match input.kind {
        StreamKind::Other => Some(format!("its {} is a directory or no file", NAMES[0])),
        StreamKind::File if input.user_can_write && !input.is_in_reach(reach) => {
            Some(format!("outside, it could write the file that is its {}", NAMES[0]))
        }
        _ => None,
    }
}

/// Whether one of them is a terminal.
pub(super) fn have_terminal(streams: &[Stream]) -> bool {
    streams.iter().any(|stream| stream.kind == StreamKind::Terminal)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Those of a command whose output is captured.
    pub(crate) fn captured() -> Vec<Stream> {
        let of = |kind, is_writable| Stream { kind, is_writable, ..Stream::default() };
        vec![of(StreamKind::Null, false), of(StreamKind::Pipe, true), of(StreamKind::Pipe, true)]
    }

    #[test]
    fn only_streams_that_give_nothing_more_outside_may_leave() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (work, file) = (root.join("work"), root.join("file"));
        fs::create_dir(&work).unwrap();
        fs::write(&file, "").unwrap();
        fs::write(work.join("file"), "").unwrap();
        let reach = Reach::new(vec![work.clone()]);
        let opened = |path: &Path| {
            let data = fs::metadata(path).unwrap();
            let (kind, identity) = (StreamKind::File, (data.dev(), data.ino()));
            Stream { kind, path: path.to_owned(), user_can_write: true, is_writable: false, identity }
        };
        let why = |at: usize, stream: Stream| {
            let mut streams = captured();
            streams[at] = stream;
            objection(&streams, &reach)
        };
        assert_eq!(objection(&captured(), &reach), None);
        assert!(objection(&[], &reach).is_some() && objection(&captured()[..1], &reach).is_some());
        for at in 0..3 {
            assert!(why(at, Stream::default()).is_some_and(|why| why.contains("closed")), "{at}");
            let other = Stream { kind: StreamKind::Other, is_writable: true, ..Stream::default() };
            assert!(why(at, other).is_some(), "{at}");
        }
        for at in [1, 2] {
            let read_only = Stream { kind: StreamKind::Pipe, ..Stream::default() };
            assert!(why(at, read_only).is_some_and(|why| why.contains("not open for writing")), "{at}");
            assert_eq!(why(at, Stream { is_writable: true, ..opened(&file) }), None, "the sandbox let it be opened");
        }
        assert!(why(0, opened(&file)).is_some());
        assert_eq!(why(0, Stream { user_can_write: false, ..opened(&file) }), None);
        assert_eq!(why(0, opened(&work.join("file"))), None);
        assert!(why(0, Stream { path: work.join("file"), ..opened(&file) }).is_some(), "the path of another file");
        assert_eq!(why(0, Stream { kind: StreamKind::Terminal, ..Stream::default() }), None);
    }
}
