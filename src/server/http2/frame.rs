//! The header of a frame (RFC 9113, 4.1).

/// The length of a frame's header.
pub(super) const HEADER: usize = 9;

pub(super) const DATA: u8 = 0x0;
pub(super) const HEADERS: u8 = 0x1;
pub(super) const RST_STREAM: u8 = 0x3;
pub(super) const SETTINGS: u8 = 0x4;
pub(super) const PING: u8 = 0x6;
pub(super) const GOAWAY: u8 = 0x7;

/// A flag of SETTINGS and PING.
pub(super) const ACK: u8 = 0x1;
/// A flag of HEADERS and DATA.
pub(super) const END_STREAM: u8 = 0x1;

/// The header of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHeader {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHeader {
    pub(super) fn parse(bytes: [u8; HEADER]) -> Self {
        let [a, b, c, kind, flags, s, t, u, v] = bytes;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        // The first bit is reserved.
        FrameHeader { length, kind, flags, stream: u32::from_be_bytes([s & 0x7f, t, u, v]) }
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Turns the header of any frame into the one of a PING on a stream, to which h2 answers with GOAWAY whatever follows
/// (RFC 9113, 6.7).
pub(super) fn forbid(header: &mut [u8]) {
    if let [_, _, _, kind, flags, stream @ ..] = header {
        (*kind, *flags) = (PING, 0);
        stream.copy_from_slice(&1_u32.to_be_bytes());
    }
}
