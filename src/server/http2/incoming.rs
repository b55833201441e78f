//! Judges the frames of a client before h2 parses them.
//!
//! h2 visits every stream for each changed SETTINGS and each GOAWAY, creates a stream for each HEADERS, and logs each
//! unexpected acknowledgement of a PING. None of this has a limit of its own, and one read has hundreds of frames.
use super::allowance::Allowance;
use super::frame::{ACK, DATA, FrameHeader, GOAWAY, HEADER, HEADERS, PING, RST_STREAM, SETTINGS, forbid};
use super::streams::Streams;
use std::time::Duration;

/// The client's connection preface.
const PREFACE: usize = 24;

/// Streams that a client may open before other tasks of the worker run.
const HEADERS_A_TURN: u32 = 16;
/// Frames of data before other tasks run, so that their readers can copy them.
const DATA_A_TURN: u32 = 64;
/// Streams that h2 may visit before other tasks run: a visit takes up to 0.4 µs, so about 8 ms.
const VISITS_A_TURN: usize = 20_000;
/// GOAWAY frames of a connection: a client sends one or two at its end.
const MAX_GOAWAY: u32 = 8;

/// What comes after the bytes that were judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    /// More bytes.
    Bytes,
    /// The turns of other tasks.
    Yield,
}

/// The parser of the frames that a client sends, and its allowances.
#[derive(Debug)]
pub(super) struct Incoming {
    /// Bytes of the preface or of the present frame's payload that have not come.
    skip: usize,
    turn: Turn,
    settings: Allowance,
    goaway: u32,
    resets: Allowance,
    unexpected_acks: Allowance,
}

/// The work of this turn.
#[derive(Debug, Default)]
struct Turn {
    headers: u32,
    data: u32,
    visits: usize,
}

impl Default for Incoming {
    fn default() -> Self {
        Incoming {
            skip: PREFACE,
            turn: Turn::default(),
            settings: Allowance::new(100, Duration::from_secs(1)),
            goaway: 0,
            // A client that gives up many calls at once is honest.
            resets: Allowance::new(1_000, Duration::from_millis(2)),
            unexpected_acks: Allowance::new(10, Duration::from_secs(10)),
        }
    }
}

impl Incoming {
    /// Begins a turn: other tasks have run, or may run now.
    pub(super) fn begin_turn(&mut self) {
        self.turn = Turn::default();
    }

    /// Judges bytes. Returns how many of them h2 may read, which ends before an incomplete header of a frame, and before
    /// a frame that is too much for this turn. `pings`: those that the client has not acknowledged.
    pub(super) fn judge(&mut self, bytes: &mut [u8], streams: &mut Streams, pings: &mut u32) -> (usize, Next) {
        let mut at = 0;
        loop {
            let skipped = self.skip.min(bytes.len() - at);
            self.skip -= skipped;
            at += skipped;
            let Some(header) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<HEADER>) else {
                return (at, Next::Bytes);
            };
            let frame = FrameHeader::parse(*header);
            if self.is_too_much(frame, streams) {
                return (at, Next::Yield);
            }
            if !self.is_allowed(frame, streams, pings) {
                forbid(header);
            }
            self.skip = frame.length;
            at += HEADER;
        }
    }

    /// Whether the frame must wait for the next turn; otherwise it counts. The first one of a turn never waits.
    fn is_too_much(&mut self, frame: FrameHeader, streams: &Streams) -> bool {
        let Turn { headers, data, visits } = &mut self.turn;
        let (count, most) = match frame.kind {
            HEADERS => (headers, HEADERS_A_TURN),
            DATA => (data, DATA_A_TURN),
            SETTINGS | GOAWAY if !(frame.kind == SETTINGS && frame.has(ACK)) => {
                let is_too_much = *visits > 0 && *visits + streams.count() > VISITS_A_TURN;
                if !is_too_much {
                    *visits += streams.count();
                }
                return is_too_much;
            }
            _ => return false,
        };
        let is_too_much = *count == most;
        if !is_too_much {
            *count += 1;
        }
        is_too_much
    }

    fn is_allowed(&mut self, frame: FrameHeader, streams: &mut Streams, pings: &mut u32) -> bool {
        match frame.kind {
            HEADERS => {
                streams.open(frame.stream);
                true
            }
            // The end of a watch is one, but it was answered.
            RST_STREAM => !streams.end(frame.stream) || self.resets.take(),
            SETTINGS if !frame.has(ACK) => self.settings.take(),
            GOAWAY => {
                self.goaway += 1;
                self.goaway <= MAX_GOAWAY
            }
            PING if frame.has(ACK) => match pings.checked_sub(1) {
                Some(left) => {
                    *pings = left;
                    true
                }
                None => self.unexpected_acks.take(),
            },
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    fn begun() -> (Incoming, Streams, u32) {
        (Incoming { skip: 0, ..Incoming::default() }, Streams::default(), 0)
    }

    /// How many of these frames are forbidden.
    fn forbidden(incoming: &mut Incoming, streams: &mut Streams, pings: &mut u32, frames: &[Vec<u8>]) -> usize {
        let judge = |bytes: &Vec<u8>| {
            let mut judged = bytes.clone();
            incoming.begin_turn();
            assert_eq!(incoming.judge(&mut judged, streams, pings), (bytes.len(), Next::Bytes));
            usize::from(judged != *bytes)
        };
        frames.iter().map(judge).sum()
    }

    #[test]
    fn frames_are_found_however_their_bytes_are_cut() {
        let frames = [frame(HEADERS, 4, 1, b"abc"), frame(DATA, 1, 1, b""), frame(PING, ACK, 0, &[7; 8])].concat();
        for chunk in 1..frames.len() {
            let (mut incoming, mut streams, mut pings) = begun();
            let (mut waiting, mut passed) = (Vec::new(), Vec::new());
            for part in frames.chunks(chunk) {
                waiting.extend_from_slice(part);
                let (n, next) = incoming.judge(&mut waiting, &mut streams, &mut pings);
                assert_eq!(next, Next::Bytes);
                passed.extend(waiting.drain(..n));
            }
            assert_eq!((passed, streams.count()), (frames.clone(), 1), "in parts of {chunk} bytes");
        }
    }

    #[test]
    fn a_turn_has_at_most_16_headers_64_data_and_20_000_visits() {
        let (mut incoming, mut streams, mut pings) = begun();
        let mut headers: Vec<u8> = (0..40).flat_map(|i| frame(HEADERS, 4, 2 * i + 1, b"")).collect();
        let one = frame(HEADERS, 4, 1, b"").len();
        let (n, next) = incoming.judge(&mut headers, &mut streams, &mut pings);
        assert_eq!((n, next), (16 * one, Next::Yield));
        let (n, next) = incoming.judge(&mut headers[16 * one..], &mut streams, &mut pings);
        assert_eq!((n, next), (0, Next::Yield), "nothing goes on in the same turn");
        let mut data = frame(DATA, 0, 1, b"x").repeat(65);
        let (n, next) = incoming.judge(&mut data, &mut streams, &mut pings);
        assert_eq!((n, next), (64 * 10, Next::Yield));
        for i in 0..1_000 {
            streams.open(1_001 + 2 * i);
        }
        incoming.begin_turn();
        let mut settings = frame(SETTINGS, 0, 0, b"").repeat(99);
        let (n, next) = incoming.judge(&mut settings, &mut streams, &mut pings);
        assert_eq!((n, next), (19 * HEADER, Next::Yield), "1,016 streams are open");
    }

    #[tokio::test(start_paused = true)]
    async fn what_no_honest_client_does_is_forbidden() {
        let (mut incoming, mut streams, mut pings) = begun();
        let mut count = |frames: &[Vec<u8>]| forbidden(&mut incoming, &mut streams, &mut pings, frames);
        assert_eq!(count(&vec![frame(SETTINGS, 0, 0, b""); 103]), 3);
        assert_eq!(count(&vec![frame(SETTINGS, ACK, 0, b""); 200]), 0);
        assert_eq!(count(&vec![frame(GOAWAY, 0, 0, &[0; 8]); 10]), 2);
        assert_eq!(count(&vec![frame(PING, 0, 0, &[0; 8]); 500]), 0);
        assert_eq!(count(&vec![frame(PING, ACK, 0, &[0; 8]); 13]), 3);
        let cancelled = |id| [frame(HEADERS, 4, id, b""), frame(RST_STREAM, 0, id, &[0; 4])];
        let calls: Vec<_> = (0..1_004).flat_map(|i| cancelled(2 * i + 1)).collect();
        assert_eq!(count(&calls), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn acknowledgements_that_were_asked_for_and_the_ends_of_watches_are_not_counted() {
        let (mut incoming, mut streams, mut pings) = begun();
        pings += 100;
        assert_eq!(
            forbidden(&mut incoming, &mut streams, &mut pings, &vec![frame(PING, ACK, 0, &[0; 8]); 110]),
            0,
            "100, and ten more"
        );
        for i in 0..2_000 {
            let id = 2 * i + 1;
            assert_eq!(forbidden(&mut incoming, &mut streams, &mut pings, &[frame(HEADERS, 4, id, b"")]), 0);
            streams.answer(id);
            let end = frame(RST_STREAM, 0, id, &[0; 4]);
            assert_eq!(forbidden(&mut incoming, &mut streams, &mut pings, &[end]), 0);
        }
    }
}
