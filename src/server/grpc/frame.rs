//! gRPC message framing (a flag byte, the length in 4 bytes, the message) and the frames that watches share.
use super::wire::{self, ReadContext};
use crate::coordinator::hub::{Frame, Shown, Sink};
use crate::core::types::ThreadId;
use crate::proto::v1;
use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use std::time::Duration;
use v1::watch_pause_state_response::Event;

/// The size in bytes at which a batch is closed: small at first, and doubled while the client reads. hyper takes one
/// batch of every stream, even if the client reads nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSize(usize);

impl BatchSize {
    pub(super) const FIRST: BatchSize = BatchSize(1 << 10);
    /// One message less than the default size of an HTTP/2 frame, so that the last message does not double the buffer.
    const LARGEST: usize = 15 << 10;

    pub(super) fn next(self) -> Self {
        BatchSize((2 * self.0).min(Self::LARGEST))
    }
}

/// The flag and the length before a message.
const PREFIX: usize = 5;

/// The maximum age of a shared frame of a paused thread, in nanoseconds: its durations are those of the moment when it
/// was encoded. A fifth of the error that a stopwatch's clock may have.
const FRESH_FOR: i64 = 1_000_000;

/// A message with its flag and length.
fn framed(message: &impl Message) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX + message.encoded_len());
    frame.put_u8(0);
    frame.put_u32(length(message.encoded_len()));
    message.encode(&mut frame).expect("there is room for it");
    frame.freeze()
}

/// The length of a message: a state takes at most 2 MiB, everything else less.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a message is far smaller than 4 GiB")
}

fn event(event: Event) -> Bytes {
    framed(&v1::WatchPauseStateResponse { event: Some(event) })
}

/// The end of the answer to a request of `Watch`, with the number of requests so far.
pub(super) fn answered(requests: u64) -> Bytes {
    event(Event::SnapshotComplete(v1::SnapshotComplete { requests }))
}

/// A refused request of `Watch`.
pub(super) fn refused(refusal: v1::Refusal) -> Bytes {
    framed(&v1::WatchResponse { event: Some(v1::watch_response::Event::Refusal(refusal)) })
}

/// How states are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Show {
    pub(super) context: ReadContext,
    pub(super) include_elicitations: bool,
    /// The longest silence, if it is not the usual one.
    pub(super) heartbeat: Option<Duration>,
}

/// A thread as the hub gives it to a [`Sink`]; `None`: it is not known.
type Known<'a> = Option<(Shown<'a>, &'a mut Frame)>;

impl Show {
    /// The state as a message that `WatchPauseState` and `Watch` send alike.
    fn frame(self, thread: &ThreadId, known: Known<'_>, floor: u64) -> Bytes {
        let Show { context, include_elicitations, .. } = self;
        let Some((shown, cache)) = known else {
            return event(Event::PauseState(wire::pause_state(thread, None, floor, false, context)));
        };
        let state = |shown| wire::pause_state(thread, Some(shown), floor, include_elicitations, context);
        if include_elicitations {
            return event(Event::PauseState(state(shown)));
        }
        let paused = shown.header.pause.since.is_some();
        if let Some((made, frame)) = &cache.0
            && (!paused || context.now.boot.saturating_sub(*made) <= FRESH_FOR)
        {
            return frame.clone();
        }
        let frame = event(Event::PauseState(state(shown)));
        cache.0 = Some((context.now.boot, frame.clone()));
        frame
    }
}

/// Collects the messages that a stream sends at once.
pub(super) struct Batch {
    show: Show,
    size: BatchSize,
    first: Bytes,
    more: BytesMut,
}

impl Batch {
    pub(super) fn new(show: Show, size: BatchSize) -> Self {
        Batch { show, size, first: Bytes::new(), more: BytesMut::new() }
    }

    /// The messages; empty if there were none. A single one is not copied.
    pub(super) fn finish(self) -> Bytes {
        if self.more.is_empty() { self.first } else { self.more.freeze() }
    }

    /// Adds the first heartbeat of a replica, which says when the next one comes. Until then, a client has to wait for
    /// the longest silence that docs/semantics.md allows before it treats a silent replica as lost.
    pub(super) fn say_interval(&mut self) {
        if self.show.heartbeat.is_some() {
            self.heartbeat();
        }
    }

    pub(super) fn push(&mut self, frame: Bytes) {
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
    fn state(&mut self, thread: &ThreadId, known: Known<'_>, floor: u64) {
        self.push(self.show.frame(thread, known, floor));
    }

    fn snapshot_complete(&mut self) {
        self.push(event(Event::SnapshotComplete(v1::SnapshotComplete::default())));
        self.say_interval();
    }

    fn heartbeat(&mut self) {
        let interval = self.show.heartbeat.map(wire::duration);
        self.push(event(Event::Heartbeat(v1::Heartbeat { interval })));
    }

    fn is_full(&self) -> bool {
        self.more.len() >= self.size.0 || self.first.len() >= self.size.0
    }
}

/// A batch that ends when the snapshot is complete, without a message that says so.
pub(super) struct UntilComplete {
    batch: Batch,
    is_complete: bool,
}

impl UntilComplete {
    pub(super) fn new(batch: Batch) -> Self {
        UntilComplete { batch, is_complete: false }
    }

    /// The messages, and whether the snapshot is complete.
    pub(super) fn finish(self) -> (Bytes, bool) {
        (self.batch.finish(), self.is_complete)
    }
}

impl Sink for UntilComplete {
    fn state(&mut self, thread: &ThreadId, known: Known<'_>, floor: u64) {
        self.batch.state(thread, known, floor);
    }

    fn snapshot_complete(&mut self) {
        self.is_complete = true;
    }

    fn heartbeat(&mut self) {
        self.batch.heartbeat();
    }

    fn is_full(&self) -> bool {
        self.is_complete || self.batch.is_full()
    }
}

/// Collects states for one `Confirmation`.
///
/// Its states and the state of a `pause_state` have the same field number, so the shared messages are its elements.
pub(super) struct Confirmation {
    show: Show,
    size: BatchSize,
    states: BytesMut,
}

impl Confirmation {
    pub(super) fn new(show: Show, size: BatchSize) -> Self {
        Confirmation { show, size, states: BytesMut::new() }
    }

    pub(super) fn finish(self) -> Bytes {
        const TAG: u32 = 4;
        let inner = prost::encoding::key_len(TAG) + prost::encoding::encoded_len_varint(self.states.len() as u64);
        let mut frame = BytesMut::with_capacity(PREFIX + inner + self.states.len());
        frame.put_u8(0);
        frame.put_u32(length(inner + self.states.len()));
        prost::encoding::encode_key(TAG, prost::encoding::WireType::LengthDelimited, &mut frame);
        prost::encoding::encode_varint(self.states.len() as u64, &mut frame);
        frame.extend_from_slice(&self.states);
        frame.freeze()
    }
}

impl Sink for Confirmation {
    fn state(&mut self, thread: &ThreadId, known: Known<'_>, floor: u64) {
        self.states.extend_from_slice(&self.show.frame(thread, known, floor)[PREFIX..]);
    }

    fn snapshot_complete(&mut self) {}

    fn heartbeat(&mut self) {}

    fn is_full(&self) -> bool {
        self.states.len() >= self.size.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Timestamp;

    #[test]
    fn a_confirmation_is_made_of_shared_messages() {
        let now = Timestamp { boot: 1, wall: 1 };
        let show = Show { context: ReadContext { now, epoch: 7 }, include_elicitations: false, heartbeat: None };
        let mut confirmation = Confirmation::new(show, BatchSize::FIRST);
        let threads = ["a", "b"].map(|id| ThreadId::parse("", id).unwrap());
        threads.iter().for_each(|thread| confirmation.state(thread, None, 9));
        let message = v1::WatchResponse::decode(&confirmation.finish()[PREFIX..]).unwrap();
        let Some(v1::watch_response::Event::Confirmation(confirmation)) = message.event else { panic!("{message:?}") };
        let states = threads.map(|thread| wire::pause_state(&thread, None, 9, false, show.context));
        assert_eq!(confirmation.pause_states, states);
    }
}
