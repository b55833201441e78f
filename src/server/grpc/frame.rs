//! gRPC message framing (a flag byte, the length in 4 bytes, the message) and the frames that watches share.
use super::wire::{self, Moment};
use crate::coordinator::hub::{Frame, OpenElicitation, Sink};
use crate::core::Header;
use crate::core::types::ThreadId;
use crate::proto::v1;
use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use v1::watch_pause_state_response::Event;

/// The size at which a batch is closed, in bytes: small at first, and doubled while the client takes more. hyper takes one
/// batch of every stream, also of a client that reads nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSize(usize);

impl BatchSize {
    pub(super) const FIRST: BatchSize = BatchSize(1 << 10);
    /// A message less than the default of an HTTP/2 frame, so that the buffer does not double for the last one.
    const LARGEST: usize = 15 << 10;

    pub(super) fn next(self) -> Self {
        BatchSize((2 * self.0).min(Self::LARGEST))
    }
}

/// How old a shared frame of a paused thread may be, in nanoseconds: its lengths are those of the moment it was made.
/// A fifth of what the clock of a stopwatch may be off.
const FRESH_FOR: i64 = 1_000_000;

fn framed(event: Event) -> Bytes {
    let message = v1::WatchPauseStateResponse { event: Some(event) };
    let mut frame = BytesMut::with_capacity(5 + message.encoded_len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.encoded_len()).expect("a state takes at most 2 MiB"));
    message.encode(&mut frame).expect("there is room for it");
    frame.freeze()
}

/// Collects the messages that a stream sends at once.
pub(super) struct Batch {
    moment: Moment,
    include_elicitations: bool,
    size: BatchSize,
    first: Bytes,
    more: BytesMut,
}

impl Batch {
    pub(super) fn new(moment: Moment, include_elicitations: bool, size: BatchSize) -> Self {
        Batch { moment, include_elicitations, size, first: Bytes::new(), more: BytesMut::new() }
    }

    /// The messages; empty if there were none. A single one is not copied.
    pub(super) fn finish(self) -> Bytes {
        if self.more.is_empty() { self.first } else { self.more.freeze() }
    }

    fn push(&mut self, frame: Bytes) {
        if self.first.is_empty() {
            self.first = frame;
            return;
        }
        if self.more.is_empty() {
            self.more.extend_from_slice(&self.first);
        }
        self.more.extend_from_slice(&frame);
    }
}

impl Sink for Batch {
    fn state(&mut self, thread: &ThreadId, known: Option<(&Header, &[OpenElicitation], &mut Frame)>, floor: u64) {
        let moment = self.moment;
        let Some((header, open, cache)) = known else {
            return self.push(framed(Event::PauseState(wire::pause_state(thread, None, floor, &[], moment))));
        };
        let count = Some((header, open.len()));
        if self.include_elicitations {
            return self.push(framed(Event::PauseState(wire::pause_state(thread, count, floor, open, moment))));
        }
        let paused = header.pause.since.is_some();
        if let Some((made, frame)) = &cache.0
            && (!paused || moment.now.boot.saturating_sub(*made) <= FRESH_FOR)
        {
            return self.push(frame.clone());
        }
        let frame = framed(Event::PauseState(wire::pause_state(thread, count, floor, &[], moment)));
        cache.0 = Some((moment.now.boot, frame.clone()));
        self.push(frame);
    }

    fn snapshot_complete(&mut self) {
        self.push(framed(Event::SnapshotComplete(v1::SnapshotComplete {})));
    }

    fn heartbeat(&mut self) {
        self.push(framed(Event::Heartbeat(v1::Heartbeat {})));
    }

    fn is_full(&self) -> bool {
        self.more.len() >= self.size.0 || self.first.len() >= self.size.0
    }
}
