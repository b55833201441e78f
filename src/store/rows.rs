//! How the embedded store writes things down: protobuf messages, so that a later version can add fields.
//!
//! A tag, once used, keeps its meaning for ever; a change that an older program must not ignore raises `FORMAT`.
use crate::core::types::{ElicitationId, ThreadId};
use crate::core::{
    Closing, Elicitation, Header, Moment, Open, Pause, RememberedAnswer, RememberedClosing, RememberedRequest, Rpc,
};
use std::sync::Arc;
use std::time::Duration;

/// A moment, and the boot whose clock it was read from.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Stamp {
    #[prost(fixed64, tag = "1")]
    boot_id: u64,
    #[prost(sfixed64, tag = "2")]
    boot: i64,
    #[prost(sfixed64, tag = "3")]
    wall: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ThreadRow {
    #[prost(uint64, tag = "1")]
    revision: u64,
    #[prost(uint64, tag = "2")]
    accrued_ns: u64,
    #[prost(message, optional, tag = "3")]
    paused_since: Option<Stamp>,
    #[prost(message, required, tag = "4")]
    changed: Stamp,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ElicitationRow {
    #[prost(string, tag = "1")]
    pub(super) thread: String,
    #[prost(bytes = "vec", tag = "2")]
    id: Vec<u8>,
    #[prost(string, tag = "3")]
    reason: String,
    #[prost(string, tag = "4")]
    holder: String,
    #[prost(message, required, tag = "5")]
    created: Stamp,
    #[prost(uint64, optional, tag = "6")]
    lease_ns: Option<u64>,
    #[prost(bool, tag = "7")]
    anonymous: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MemoryRow {
    #[prost(string, tag = "1")]
    pub(super) thread: String,
    #[prost(message, required, tag = "2")]
    at: Stamp,
    #[prost(oneof = "Kind", tags = "3, 4, 5, 6")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(bytes, tag = "3")]
    Released(Vec<u8>),
    #[prost(bytes, tag = "4")]
    Expired(Vec<u8>),
    #[prost(message, tag = "5")]
    Increment(RequestRow),
    #[prost(message, tag = "6")]
    Decrement(RequestRow),
}

#[derive(Clone, PartialEq, prost::Message)]
struct RequestRow {
    #[prost(string, tag = "1")]
    request_id: String,
    #[prost(bytes = "vec", tag = "2")]
    fingerprint: Vec<u8>,
    #[prost(uint32, tag = "3")]
    count: u32,
    #[prost(uint64, tag = "4")]
    revision: u64,
    #[prost(bytes = "vec", optional, tag = "5")]
    opened: Option<Vec<u8>>,
    #[prost(message, optional, tag = "6")]
    ends: Option<Stamp>,
}

/// What a remembered row was.
pub(super) enum Remembered {
    Closing(RememberedClosing),
    Request(RememberedRequest),
}

/// Puts moments on the clock of this process, and back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamper {
    pub(super) boot_id: u64,
    pub(super) now: Moment,
}

fn bytes(id: u128) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

fn number(bytes: &[u8]) -> Option<u128> {
    bytes.try_into().ok().map(u128::from_be_bytes)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Stamper {
    fn stamp(&self, moment: Moment) -> Stamp {
        Stamp { boot_id: self.boot_id, boot: moment.boot, wall: moment.wall }
    }

    fn moment(&self, stamp: Stamp) -> Moment {
        Moment { boot: stamp.boot, wall: stamp.wall }.rebased(stamp.boot_id == self.boot_id, self.now)
    }

    /// The end of a lease, which may lie ahead of now.
    fn end(&self, stamp: Stamp) -> Moment {
        match stamp.boot_id == self.boot_id {
            true => Moment { boot: stamp.boot, wall: stamp.wall },
            false => self.moment(stamp),
        }
    }

    pub(super) fn thread_row(&self, header: &Header) -> ThreadRow {
        ThreadRow {
            revision: header.revision,
            accrued_ns: nanos(header.pause.accrued),
            paused_since: header.pause.since.map(|since| self.stamp(since)),
            changed: self.stamp(header.changed),
        }
    }

    pub(super) fn header(&self, row: &ThreadRow) -> Header {
        let since = row.paused_since.map(|since| self.moment(since));
        let pause = Pause { accrued: Duration::from_nanos(row.accrued_ns), since };
        Header { revision: row.revision, pause, changed: self.moment(row.changed) }
    }

    pub(super) fn elicitation_row(&self, thread: &ThreadId, open: &Open) -> ElicitationRow {
        ElicitationRow {
            thread: thread.as_str().to_owned(),
            id: bytes(open.elicitation.id.0),
            reason: open.elicitation.reason.to_string(),
            holder: open.elicitation.holder.to_string(),
            created: self.stamp(open.elicitation.created),
            lease_ns: open.lease.map(|(length, _)| nanos(length)),
            anonymous: open.anonymous,
        }
    }

    /// Its lease begins anew, now: nobody could renew it while the server was down.
    pub(super) fn open(&self, row: u64, stored: ElicitationRow) -> Option<Open> {
        let lease = stored.lease_ns.map(Duration::from_nanos).map(|length| (length, self.now.after(length)));
        let elicitation = Elicitation {
            id: ElicitationId(number(&stored.id)?),
            reason: stored.reason.into(),
            holder: stored.holder.into(),
            created: self.moment(stored.created),
        };
        Some(Open { elicitation: Arc::new(elicitation), lease, anonymous: stored.anonymous, row })
    }

    pub(super) fn closing_row(&self, thread: &ThreadId, closing: &RememberedClosing) -> MemoryRow {
        let id = bytes(closing.id.0);
        let kind = match closing.how {
            Closing::Released => Kind::Released(id),
            Closing::Expired => Kind::Expired(id),
        };
        MemoryRow { thread: thread.as_str().to_owned(), at: self.stamp(closing.at), kind: Some(kind) }
    }

    pub(super) fn request_row(&self, thread: &ThreadId, request: &RememberedRequest) -> MemoryRow {
        let RememberedAnswer { count, revision, opened } = request.answer;
        let row = RequestRow {
            request_id: request.request_id.to_string(),
            fingerprint: bytes(request.fingerprint),
            count,
            revision,
            opened: opened.map(|(id, _)| bytes(id.0)),
            ends: opened.and_then(|(_, ends)| ends).map(|ends| self.stamp(ends)),
        };
        let kind = match request.rpc {
            Rpc::Increment => Kind::Increment(row),
            Rpc::Decrement => Kind::Decrement(row),
        };
        MemoryRow { thread: thread.as_str().to_owned(), at: self.stamp(request.at), kind: Some(kind) }
    }

    pub(super) fn remembered(&self, row: u64, stored: MemoryRow) -> Option<Remembered> {
        let at = self.moment(stored.at);
        let closing = |id: &[u8], how| {
            Some(Remembered::Closing(RememberedClosing { id: ElicitationId(number(id)?), how, at, row }))
        };
        let request = |rpc, stored: RequestRow| {
            let opened = match &stored.opened {
                Some(id) => Some((ElicitationId(number(id)?), stored.ends.map(|ends| self.end(ends)))),
                None => None,
            };
            (opened.is_some() == (rpc == Rpc::Increment)).then_some(())?;
            let answer = RememberedAnswer { count: stored.count, revision: stored.revision, opened };
            let fingerprint = number(&stored.fingerprint)?;
            let request_id = stored.request_id.into();
            Some(Remembered::Request(RememberedRequest { rpc, request_id, fingerprint, answer, at, row }))
        };
        match stored.kind? {
            Kind::Released(id) => closing(&id, Closing::Released),
            Kind::Expired(id) => closing(&id, Closing::Expired),
            Kind::Increment(stored) => request(Rpc::Increment, stored),
            Kind::Decrement(stored) => request(Rpc::Decrement, stored),
        }
    }
}
