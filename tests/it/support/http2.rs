//! HTTP/2 by hand: frames that no correct client sends.
use super::PATIENCE;
use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Frame types and flags (RFC 9113, 6).
pub(crate) const DATA: u8 = 0x0;
pub(crate) const HEADERS: u8 = 0x1;
pub(crate) const RST_STREAM: u8 = 0x3;
pub(crate) const SETTINGS: u8 = 0x4;
pub(crate) const PING: u8 = 0x6;
pub(crate) const GOAWAY: u8 = 0x7;
pub(crate) const WINDOW_UPDATE: u8 = 0x8;
pub(crate) const CONTINUATION: u8 = 0x9;
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The setting for how much the peer may send on each stream before it is read.
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 0x4;
/// The longest frame that a server accepts by default.
pub(crate) const LONGEST: usize = 16_384;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("frames are short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub(crate) fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> =
        settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// A header that is not to be indexed (RFC 7541, 6.2.2), with a literal name.
pub(crate) fn header(name: &str, value: &str) -> Vec<u8> {
    [&[0][..], &text(name), &text(value)].concat()
}

/// A string without Huffman coding (RFC 7541, 5.2).
fn text(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    match text.len() {
        short @ 0..127 => out.push(short as u8),
        long => {
            out.push(127);
            let mut rest = long - 127;
            while rest >= 128 {
                out.push(rest as u8 | 128);
                rest >>= 7;
            }
            out.push(rest as u8);
        }
    }
    out.extend_from_slice(text.as_bytes());
    out
}

/// The headers of a call.
pub(crate) fn call(rpc: &str) -> Vec<u8> {
    call_as(rpc, "application/grpc")
}

/// The headers of a call whose message has this content type.
pub(crate) fn call_as(rpc: &str, content_type: &str) -> Vec<u8> {
    call_to(&format!("/pausewatch.v1.ElicitationService/{rpc}"), content_type)
}

/// The headers of a call to this path.
pub(crate) fn call_to(path: &str, content_type: &str) -> Vec<u8> {
    let rest = [(":path", path), (":authority", "h"), ("content-type", content_type), ("te", "trailers")];
    // From HPACK's static table: POST, http.
    [vec![0x83, 0x86], rest.iter().flat_map(|(name, value)| header(name, value)).collect()].concat()
}

/// A message as gRPC frames it, which announces `length` bytes.
pub(crate) fn message(length: usize, bytes: &[u8]) -> Vec<u8> {
    [&[0], &u32::try_from(length).expect("below 4 GiB").to_be_bytes()[..], bytes].concat()
}

/// The ids of a client's streams.
pub(crate) fn streams() -> impl Iterator<Item = u32> {
    (1..).step_by(2)
}

/// Removes the first frame of `bytes`, if it is complete: kind, flags, stream, payload.
fn take_frame(bytes: &mut Vec<u8>) -> Option<(u8, u8, u32, Vec<u8>)> {
    let [a, b, c, kind, flags, stream @ ..] = bytes.get(..9)? else { return None };
    let (kind, flags, stream) = (*kind, *flags, u32::from_be_bytes(stream.try_into().ok()?));
    let end = 9 + u32::from_be_bytes([0, *a, *b, *c]) as usize;
    let payload = bytes.get(9..end)?.to_vec();
    bytes.drain(..end);
    Some((kind, flags, stream, payload))
}

/// Reads at least a byte.
async fn read(stream: &mut TcpStream, said: &mut Vec<u8>) -> io::Result<()> {
    match tokio::time::timeout(PATIENCE, stream.read_buf(said)).await {
        Ok(Ok(1..)) => Ok(()),
        Ok(Ok(0)) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// A connection that is read only on request.
pub(crate) struct Raw {
    stream: TcpStream,
    /// Bytes that were read and are not a complete frame yet.
    said: Vec<u8>,
    /// The bytes of data that the server accepts on this connection (stream 0), and of each stream beyond the first
    /// window.
    windows: HashMap<u32, usize>,
    first_window: usize,
    sent: HashMap<u32, usize>,
    /// The frames that were read by kind, and the streams that the server has ended.
    frames: HashMap<u8, usize>,
    ended: HashSet<u32>,
}

impl Raw {
    pub(crate) async fn connect(address: &str) -> io::Result<Self> {
        TcpStream::connect(address).await.map(Self::over)
    }

    /// Opens a connection on which the kernel of this side takes little that is not read.
    pub(crate) async fn open_deaf(address: &str, with: &[(u16, u32)]) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4_096)?;
        let mut raw = Self::over(socket.connect(address.parse().map_err(io::Error::other)?).await?);
        raw.send(&[PREFACE, &settings(with)].concat()).await?;
        Ok(raw)
    }

    fn over(stream: TcpStream) -> Self {
        Raw {
            stream,
            said: Vec::new(),
            windows: HashMap::new(),
            first_window: 65_535,
            sent: HashMap::new(),
            frames: HashMap::new(),
            ended: HashSet::new(),
        }
    }

    /// Connects and sends a client's first frames.
    pub(crate) async fn open(address: &str, with: &[(u16, u32)]) -> io::Result<Self> {
        let mut raw = Self::connect(address).await?;
        raw.send(&[PREFACE, &settings(with)].concat()).await?;
        Ok(raw)
    }

    /// Sends all of it, unless the server accepts no more for some seconds: then a frame may be sent in part, and
    /// nothing can follow.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send_within(Duration::from_secs(3), bytes).await
    }

    /// Sends all of it to a server that continues to read, however slow the machine is.
    pub(crate) async fn send_all(&mut self, bytes: &[u8]) {
        self.send_within(PATIENCE, bytes).await.expect("the server reads on");
    }

    async fn send_within(&mut self, patience: Duration, bytes: &[u8]) -> io::Result<()> {
        let sent = tokio::time::timeout(patience, self.stream.write_all(bytes)).await;
        sent.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// Sends data of a stream when the server's window allows it, within some seconds.
    pub(crate) async fn send_data(&mut self, stream: u32, data: &[u8]) -> io::Result<()> {
        while self.left(0, 65_535) < data.len() || self.left(stream, self.first_window) < data.len() {
            let read = tokio::time::timeout(Duration::from_secs(8), self.stream.read_buf(&mut self.said)).await;
            if !matches!(read, Ok(Ok(1..))) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            while let Some((kind, of, payload)) = self.take_frame() {
                self.heed(kind, of, &payload);
                if kind == SETTINGS && !payload.is_empty() {
                    // Until the acknowledgement, the server applies its earlier windows to us.
                    self.send(&frame(SETTINGS, ACK, 0, &[])).await?;
                }
            }
        }
        for of in [0, stream] {
            *self.sent.entry(of).or_default() += data.len();
        }
        self.send(&frame(DATA, 0, stream, data)).await
    }

    /// Sends data of a stream if the server's window allows it now or within a moment.
    pub(crate) async fn try_send_data(&mut self, stream: u32, data: &[u8]) -> io::Result<()> {
        let sent = tokio::time::timeout(Duration::from_millis(100), self.send_data(stream, data)).await;
        sent.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    fn take_frame(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let (kind, flags, stream, payload) = take_frame(&mut self.said)?;
        *self.frames.entry(kind).or_default() += 1;
        if kind == RST_STREAM || flags & END_STREAM != 0 && matches!(kind, DATA | HEADERS) {
            self.ended.insert(stream);
        }
        Some((kind, stream, payload))
    }

    /// How many frames of a kind were read.
    pub(crate) fn count(&self, kind: u8) -> usize {
        self.frames.get(&kind).copied().unwrap_or_default()
    }

    /// Waits until the server has ended a stream.
    pub(crate) async fn wait_for_end(&mut self, stream: u32) -> io::Result<()> {
        while !self.ended.contains(&stream) {
            if self.take_frame().is_none() {
                read(&mut self.stream, &mut self.said).await?;
            }
        }
        Ok(())
    }

    fn left(&self, of: u32, first: usize) -> usize {
        let granted = first + self.windows.get(&of).unwrap_or(&0);
        granted.saturating_sub(*self.sent.get(&of).unwrap_or(&0))
    }

    /// Records how much the server allows us to send.
    fn heed(&mut self, kind: u8, of: u32, payload: &[u8]) {
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("4 bytes")) as usize;
        match kind {
            WINDOW_UPDATE => *self.windows.entry(of).or_default() += number(payload),
            SETTINGS => {
                let window = payload.chunks_exact(6).find(|setting| setting[..2] == INITIAL_WINDOW_SIZE.to_be_bytes());
                self.first_window = window.map_or(self.first_window, |setting| number(&setting[2..]));
            }
            _ => {}
        }
    }

    /// Waits until this many frames of a kind have arrived. Do not call it after [`Raw::wait_for_pong`], which skips
    /// frames.
    pub(crate) async fn wait_for(&mut self, kind: u8, count: usize) -> io::Result<()> {
        let mut come = 0;
        while come < count {
            while let Some((found, ..)) = self.take_frame() {
                come += usize::from(found == kind);
            }
            if come < count {
                read(&mut self.stream, &mut self.said).await?;
            }
        }
        Ok(())
    }

    /// Waits until the server has processed all that was sent.
    pub(crate) async fn wait_for_pong(&mut self) -> io::Result<()> {
        const PONG: &[u8] = b"are you?";
        self.send(&frame(PING, 0, 0, PONG)).await?;
        let mut said = Vec::new();
        while !said.windows(PONG.len()).any(|bytes| bytes == PONG) {
            read(&mut self.stream, &mut said).await?;
        }
        Ok(())
    }

    /// Reads until the server closes, or is silent for `patience`. Returns whether it closed, and the bytes.
    pub(crate) async fn read_to_end(&mut self, patience: Duration) -> (bool, Vec<u8>) {
        let mut said = Vec::new();
        loop {
            match tokio::time::timeout(patience, self.stream.read_buf(&mut said)).await {
                Err(_) => return (false, said),
                Ok(Ok(0) | Err(_)) => return (true, said),
                Ok(Ok(_)) => {}
            }
        }
    }
}
