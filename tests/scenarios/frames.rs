//! Which HTTP/2 streams of a connection are open, read from its bytes as they pass.
//!
//! 1. HEADERS of the client open a stream. END_STREAM of the server, or RST_STREAM of either, closes it.
//! 2. Of a frame only its nine bytes of header are read, so names and sizes do not matter, and nothing is kept.
//!
//! A unary call is a stream too, for as long as it takes; what stays open is a watch.
use std::collections::HashSet;

const PREFACE: usize = 24;
const HEADER: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    Client,
    Server,
}

/// The open streams of one connection.
#[derive(Default)]
pub(crate) struct Streams(HashSet<u32>);

impl Streams {
    pub(crate) fn open(&self) -> usize {
        self.0.len()
    }

    fn take(&mut self, from: From, kind: u8, flags: u8, stream: u32) {
        match (from, kind) {
            (From::Client, HEADERS) => _ = self.0.insert(stream),
            (From::Server, HEADERS | DATA) if flags & END_STREAM != 0 => _ = self.0.remove(&stream),
            (_, RST_STREAM) => _ = self.0.remove(&stream),
            _ => {}
        }
    }
}

/// Reads the frames of one direction.
pub(crate) struct Reader {
    from: From,
    /// Bytes to pass over before the next header.
    skip: usize,
    header: Vec<u8>,
}

impl Reader {
    pub(crate) fn new(from: From) -> Self {
        let skip = if from == From::Client { PREFACE } else { 0 };
        Reader { from, skip, header: Vec::with_capacity(HEADER) }
    }

    pub(crate) fn read(&mut self, mut bytes: &[u8], streams: &mut Streams) {
        while !bytes.is_empty() {
            let passed = self.skip.min(bytes.len());
            self.skip -= passed;
            bytes = &bytes[passed..];
            let wanted = (HEADER - self.header.len()).min(bytes.len());
            self.header.extend_from_slice(&bytes[..wanted]);
            bytes = &bytes[wanted..];
            if let [a, b, c, kind, flags, stream @ ..] = &self.header[..]
                && let Ok(stream) = <[u8; 4]>::try_from(stream)
            {
                self.skip = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
                streams.take(self.from, *kind, *flags, u32::from_be_bytes(stream) & 0x7fff_ffff);
                self.header.clear();
            }
        }
    }
}

/// Two streams open, one ends by the server, one by the client; the bytes come one at a time, and all at once.
pub(crate) fn check_itself() {
    let frame = |length: u8, kind: u8, flags: u8, stream: u8| {
        let mut bytes = vec![0, 0, length, kind, flags, 0, 0, 0, stream];
        bytes.extend(std::iter::repeat_n(HEADERS, usize::from(length)));
        bytes
    };
    let sent = [vec![b'P'; PREFACE], frame(0, 4, 0, 0), frame(12, HEADERS, 4, 1), frame(3, HEADERS, 5, 3)].concat();
    let answered = [frame(7, HEADERS, 4, 1), frame(20, DATA, 0, 1), frame(2, HEADERS, 5, 3)].concat();
    for size in [1, usize::MAX] {
        let (mut streams, mut client, mut server) =
            (Streams::default(), Reader::new(From::Client), Reader::new(From::Server));
        let mut step = |reader: &mut Reader, bytes: &[u8], open: usize| {
            bytes.chunks(size).for_each(|chunk| reader.read(chunk, &mut streams));
            assert_eq!(streams.open(), open, "streams open in chunks of {size}");
        };
        step(&mut client, &sent, 2);
        step(&mut server, &answered, 1);
        step(&mut client, &frame(4, RST_STREAM, 0, 1), 0);
    }
}
