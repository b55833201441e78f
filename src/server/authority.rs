//! Requests over a Unix socket whose `:authority` is the path of the socket.
//!
//! Some client libraries, such as gRPC's C core, send `tmp%2Fp.sock` or `/tmp/p.sock` there. RFC 9113 and our HTTP/2
//! library treat that as invalid, and reset the stream. The server does not need the value, so `%` and `/` in it are
//! replaced in place, before the connection is parsed. All lengths, and the tables of HPACK (RFC 7541) on both sides,
//! stay the same.
//!
//! 1. Only the value of `:authority` changes. It is recognized where clients send it: as a literal in a HEADERS frame.
//!    A Huffman-coded value stays as it is: the libraries that send a path do not use that.
//! 2. Bytes may arrive in parts of any size; only the position is kept.
//! 3. A connection that breaks the protocol may be changed or not; the parser refuses it in both cases.
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// The client's connection preface.
const PREFACE: usize = 24;
const FRAME_HEADER: usize = 9;
const TYPE_HEADERS: u8 = 1;
const FLAG_PADDED: u8 = 0x8;
const FLAG_PRIORITY: u8 = 0x20;
const PRIORITY: usize = 5;
const NAME: &[u8] = b":authority";
/// `:authority` in the static table of HPACK.
const NAME_INDEX: usize = 1;

/// A connection whose requests get a valid `:authority` as they are read.
pub(super) struct ValidAuthority<S> {
    stream: S,
    filter: Filter,
}

impl<S> ValidAuthority<S> {
    pub(super) fn new(stream: S) -> Self {
        ValidAuthority { stream, filter: Filter::default() }
    }
}

impl<S: Connected> Connected for ValidAuthority<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> S::ConnectInfo {
        self.stream.connect_info()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ValidAuthority<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.filter.apply(&mut buf.filled_mut()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ValidAuthority<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Parses the frames of a connection, and the header fields in its HEADERS frames.
struct Filter {
    part: Part,
    /// Bytes until the next part.
    left: usize,
    header: [u8; FRAME_HEADER],
    /// Bytes of this frame after the part.
    payload: usize,
    padding: usize,
    fields: Fields,
}

/// The kind of the next bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    FrameHeader,
    PadLength,
    Priority,
    Fields,
    /// The preface, padding, and frames without fields.
    Skipped,
}

impl Default for Filter {
    fn default() -> Self {
        let (header, fields) = Default::default();
        Filter { part: Part::Skipped, left: PREFACE, header, payload: 0, padding: 0, fields }
    }
}

impl Filter {
    fn apply(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at_mut(self.left.min(bytes.len()));
            match self.part {
                Part::FrameHeader => {
                    let at = FRAME_HEADER - self.left;
                    self.header[at..at + part.len()].copy_from_slice(part);
                }
                Part::PadLength => self.padding = part.first().copied().unwrap_or_default().into(),
                Part::Fields => part.iter_mut().for_each(|byte| self.fields.read(byte)),
                Part::Priority | Part::Skipped => {}
            }
            self.left -= part.len();
            bytes = rest;
            while self.left == 0 {
                self.next_part();
            }
        }
    }

    fn next_part(&mut self) {
        let [a, b, c, kind, flags, ..] = self.header;
        let has = |flag| flags & flag != 0;
        if self.part == Part::FrameHeader {
            self.payload = u32::from_be_bytes([0, a, b, c]) as usize;
            (self.padding, self.fields) = Default::default();
        }
        let (part, length) = match self.part {
            Part::FrameHeader if kind != TYPE_HEADERS => (Part::Skipped, self.payload),
            Part::FrameHeader if has(FLAG_PADDED) => (Part::PadLength, 1),
            Part::FrameHeader | Part::PadLength if has(FLAG_PRIORITY) => (Part::Priority, PRIORITY),
            Part::FrameHeader | Part::PadLength | Part::Priority => {
                (Part::Fields, self.payload.saturating_sub(self.padding))
            }
            Part::Fields => (Part::Skipped, self.payload),
            Part::Skipped => (Part::FrameHeader, FRAME_HEADER),
        };
        if part != Part::FrameHeader {
            // A frame that is too short for its flags: the parser refuses it.
            self.left = length.min(self.payload);
            self.payload -= self.left;
        } else {
            self.left = length;
        }
        self.part = part;
    }
}

/// Parses the fields of a header block.
#[derive(Default)]
struct Fields {
    state: State,
    is_authority: bool,
    is_huffman: bool,
}

#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Start,
    /// The further bytes of a number.
    Number {
        value: usize,
        shift: u32,
        of: Number,
    },
    Length(Text),
    Text {
        left: usize,
        position: usize,
        of: Text,
    },
}

#[derive(Clone, Copy)]
enum Number {
    /// An indexed field, or the size of the table.
    Whole,
    NameIndex,
    Length(Text),
}

#[derive(Clone, Copy, PartialEq)]
enum Text {
    Name,
    Value,
}

impl Fields {
    fn read(&mut self, byte: &mut u8) {
        self.state = match self.state {
            State::Start if *byte & 0x80 != 0 => self.number(*byte, 7, Number::Whole),
            State::Start if *byte & 0xe0 == 0x20 => self.number(*byte, 5, Number::Whole),
            State::Start if *byte & 0x40 != 0 => self.number(*byte, 6, Number::NameIndex),
            State::Start => self.number(*byte, 4, Number::NameIndex),
            State::Number { value, shift, of } => {
                let more = usize::from(*byte & 0x7f).checked_shl(shift).unwrap_or(usize::MAX);
                let value = value.saturating_add(more);
                match *byte & 0x80 {
                    0 => self.after_number(of, value),
                    _ => State::Number { value, shift: shift.saturating_add(7), of },
                }
            }
            State::Length(of) => {
                self.is_huffman = *byte & 0x80 != 0;
                self.number(*byte, 7, Number::Length(of))
            }
            State::Text { left, position, of } => {
                match of {
                    Text::Name => self.is_authority &= !self.is_huffman && NAME.get(position) == Some(byte),
                    Text::Value if self.is_authority && !self.is_huffman && matches!(*byte, b'%' | b'/') => {
                        *byte = b'-'
                    }
                    Text::Value => {}
                }
                self.text(left - 1, position + 1, of)
            }
        };
    }

    /// A number begins in the low bits of `byte`.
    fn number(&mut self, byte: u8, bits: u32, of: Number) -> State {
        let max = (1 << bits) - 1;
        match usize::from(byte) & max {
            value if value == max => State::Number { value, shift: 0, of },
            value => self.after_number(of, value),
        }
    }

    fn after_number(&mut self, of: Number, value: usize) -> State {
        match of {
            Number::Whole => State::Start,
            Number::NameIndex => {
                // 0: the name follows, and may be `:authority`.
                self.is_authority = value == 0 || value == NAME_INDEX;
                State::Length(if value == 0 { Text::Name } else { Text::Value })
            }
            Number::Length(of) => self.text(value, 0, of),
        }
    }

    fn text(&mut self, left: usize, position: usize, of: Text) -> State {
        match (left, of) {
            (0, Text::Name) => {
                self.is_authority &= position == NAME.len();
                State::Length(Text::Value)
            }
            (0, Text::Value) => State::Start,
            _ => State::Text { left, position, of },
        }
    }
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;
