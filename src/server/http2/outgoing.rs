//! Notes what of the answers is on the wire.
use super::frame::{ACK, DATA, END_STREAM, FrameHeader, HEADER, HEADERS, PING, RST_STREAM};
use super::streams::Streams;

/// The parser of the frames that the server has written.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    header: [u8; HEADER],
    /// How many bytes of the header were written.
    written: usize,
    /// Bytes of the payload that have not been written.
    left: usize,
}

impl Outgoing {
    /// These bytes were written. `pings`: those that the client has not acknowledged.
    pub(super) fn note(&mut self, mut bytes: &[u8], streams: &mut Streams, pings: &mut u32) {
        while !bytes.is_empty() {
            if self.written < HEADER {
                let (part, rest) = bytes.split_at(bytes.len().min(HEADER - self.written));
                self.header[self.written..self.written + part.len()].copy_from_slice(part);
                self.written += part.len();
                bytes = rest;
                if self.written < HEADER {
                    return;
                }
                self.left = FrameHeader::parse(self.header).length;
            }
            let payload = bytes.len().min(self.left);
            self.left -= payload;
            bytes = &bytes[payload..];
            if self.left == 0 {
                self.written = 0;
                note_frame(FrameHeader::parse(self.header), streams, pings);
            }
        }
    }
}

/// A whole frame was written.
fn note_frame(frame: FrameHeader, streams: &mut Streams, pings: &mut u32) {
    match frame.kind {
        HEADERS | DATA if frame.has(END_STREAM) => {
            streams.end(frame.stream);
        }
        HEADERS => streams.answer(frame.stream),
        RST_STREAM => {
            streams.end(frame.stream);
        }
        PING if !frame.has(ACK) => *pings = pings.saturating_add(1),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_ends_with_the_last_byte_on_the_wire() {
        let frames: [&[u8]; 5] = [
            b"\0\0\x02\x01\x04\0\0\0\x01hi",
            b"\0\0\x03\0\x01\0\0\0\x01end",
            b"\0\0\x02\x01\x05\0\0\0\x03no",
            b"\0\0\x04\x03\0\0\0\0\x05\0\0\0\x08",
            b"\0\0\x08\x06\0\0\0\0\0ask you?",
        ];
        let all = frames.concat();
        for chunk in 1..all.len() {
            let (mut outgoing, mut streams, mut pings) = (Outgoing::default(), Streams::default(), 0);
            for id in [1, 3, 5, 7] {
                streams.open(id);
            }
            let (last, rest) = all.split_last().expect("it is long");
            rest.chunks(chunk).for_each(|part| outgoing.note(part, &mut streams, &mut pings));
            assert_eq!((streams.count(), pings), (1, 0));
            outgoing.note(&[*last], &mut streams, &mut pings);
            assert_eq!((streams.count(), pings), (1, 1), "only the last one is open");
        }
    }
}
