//! Follows which HTTP/2 streams of a connection are open, from the bytes that pass, and removes the frames of muted
//! streams.
//!
//! 1. HEADERS from the client open a stream. END_STREAM from the server, or RST_STREAM from either side, closes it.
//! 2. Only the nine header bytes of a frame are read, so names and sizes do not matter, and nothing else is stored.
//! 3. DATA from the server on a muted stream is removed, always whole frames: all other streams of the connection
//!    continue as usual.
//!
//! A unary call is an open stream too, until it ends; a stream that stays open is a watch.
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
pub(crate) struct Streams {
    open: HashSet<u32>,
    muted: HashSet<u32>,
}

impl Streams {
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Mutes the streams that are open now.
    pub(crate) fn mute(&mut self) {
        self.muted.clone_from(&self.open);
    }

    /// Processes a frame's header; returns whether the frame passes.
    fn take(&mut self, from: From, kind: u8, flags: u8, stream: u32) -> bool {
        match (from, kind) {
            (From::Client, HEADERS) => _ = self.open.insert(stream),
            (From::Server, HEADERS | DATA) if flags & END_STREAM != 0 => _ = self.open.remove(&stream),
            (_, RST_STREAM) => _ = self.open.remove(&stream),
            _ => {}
        }
        (from, kind) != (From::Server, DATA) || !self.muted.contains(&stream)
    }
}

/// Reads the frames of one direction.
pub(crate) struct Reader {
    from: From,
    /// The number of bytes until the next header, and whether they pass.
    left: usize,
    passes: bool,
    header: Vec<u8>,
}

impl Reader {
    pub(crate) fn new(from: From) -> Self {
        let left = if from == From::Client { PREFACE } else { 0 };
        Reader { from, left, passes: true, header: Vec::with_capacity(HEADER) }
    }

    /// Appends the bytes that pass to `passed`; an incomplete header waits for its rest.
    pub(crate) fn read(&mut self, mut bytes: &[u8], streams: &mut Streams, passed: &mut Vec<u8>) {
        while !bytes.is_empty() {
            let (payload, rest) = bytes.split_at(self.left.min(bytes.len()));
            self.left -= payload.len();
            if self.passes {
                passed.extend_from_slice(payload);
            }
            let (header, rest) = rest.split_at((HEADER - self.header.len()).min(rest.len()));
            self.header.extend_from_slice(header);
            bytes = rest;
            if let [a, b, c, kind, flags, stream @ ..] = &self.header[..]
                && let Ok(stream) = <[u8; 4]>::try_from(stream)
            {
                self.left = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
                self.passes = streams.take(self.from, *kind, *flags, u32::from_be_bytes(stream) & 0x7fff_ffff);
                if self.passes {
                    passed.append(&mut self.header);
                }
                self.header.clear();
            }
        }
    }
}

/// Opens two streams; the server closes one, and the other is muted and then closed by the client. The bytes arrive one
/// at a time, and all at once.
pub(crate) fn check_itself() {
    let frame = |length: u8, kind: u8, flags: u8, stream: u8| {
        let mut bytes = vec![0, 0, length, kind, flags, 0, 0, 0, stream];
        bytes.extend(std::iter::repeat_n(HEADERS, usize::from(length)));
        bytes
    };
    let sent = [vec![b'P'; PREFACE], frame(0, 4, 0, 0), frame(12, HEADERS, 4, 1), frame(3, HEADERS, 5, 3)].concat();
    let answered = [frame(7, HEADERS, 4, 1), frame(20, DATA, 0, 1), frame(2, HEADERS, 5, 3)].concat();
    let (told, pinged) = (frame(20, DATA, 0, 1), frame(8, 6, 0, 0));
    for size in [1, usize::MAX] {
        let mut streams = Streams::default();
        let (mut client, mut server) = (Reader::new(From::Client), Reader::new(From::Server));
        let step = |reader: &mut Reader, streams: &mut Streams, bytes: &[u8], pass: &[u8], open: usize| {
            let mut passed = Vec::new();
            bytes.chunks(size).for_each(|chunk| reader.read(chunk, streams, &mut passed));
            assert_eq!(
                (&passed[..], streams.open()),
                (pass, open),
                "the bytes that pass, and the open streams, in pieces of {size}"
            );
        };
        step(&mut client, &mut streams, &sent, &sent, 2);
        step(&mut server, &mut streams, &answered, &answered, 1);
        streams.mute();
        step(&mut server, &mut streams, &[&told[..], &pinged].concat(), &pinged, 1);
        let reset = frame(4, RST_STREAM, 0, 1);
        step(&mut client, &mut streams, &reset, &reset, 0);
    }
}
