//! The stored form of records: protobuf messages, so that a later version can add fields.
//!
//! Rows are written field by field (`put_*`), because a message would first need a copy of every text; the structs read
//! them. A tag never changes its meaning. A change that older programs must not ignore raises `FORMAT`.
use crate::core::types::{ElicitationId, ThreadId};
use crate::core::{
    Elicitation, Header, Open, Pause, PauseEnd, RememberedAnswer, RememberedClosing, RememberedRequest, Rpc, Timestamp,
};
use prost::encoding::{WireType, encode_key, encode_varint};
use std::sync::Arc;
use std::time::Duration;

/// The ends of leases of at least this length are stored, so that they do not restart each time the leader of a fleet
/// changes. Shorter ones restart with each leader, and their renewals need no writes.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(10 * 60);

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

impl ThreadRow {
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// The row for a new epoch: it has this revision, and no paused time of ended pauses.
    pub(super) fn begin_epoch(self, revision: u64) -> Self {
        Self { revision, accrued_ns: 0, ..self }
    }
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
    /// When the lease ends, if it is long: see [`LONG_LEASE`].
    #[prost(message, optional, tag = "8")]
    ends: Option<Stamp>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MemoryRow {
    #[prost(string, tag = "1")]
    pub(super) thread: String,
    #[prost(message, required, tag = "2")]
    at: Stamp,
    #[prost(oneof = "Kind", tags = "3, 4, 5, 6, 7")]
    kind: Option<Kind>,
    /// Released by an admin.
    #[prost(bool, tag = "8")]
    by_admin: bool,
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
    #[prost(bytes, tag = "7")]
    Capped(Vec<u8>),
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

/// The kind of a remembered row.
pub(super) enum Remembered {
    Closing(RememberedClosing),
    Request(RememberedRequest),
}

/// Converts moments between the clock of this process and their stored form.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowCodec {
    pub(super) boot_id: u64,
    pub(super) now: Timestamp,
}

/// Appends a number unless it is 0, the default of protobuf.
fn put_number(tag: u32, number: u64, out: &mut Vec<u8>) {
    if number != 0 {
        encode_key(tag, WireType::Varint, out);
        encode_varint(number, out);
    }
}

fn put_bytes(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn number(bytes: &[u8]) -> Option<u128> {
    bytes.try_into().ok().map(u128::from_be_bytes)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl RowCodec {
    fn stamp(&self, moment: Timestamp) -> Stamp {
        Stamp { boot_id: self.boot_id, boot: moment.boot, wall: moment.wall }
    }

    fn moment(&self, stamp: Stamp) -> Timestamp {
        Timestamp { boot: stamp.boot, wall: stamp.wall }.rebased(stamp.boot_id == self.boot_id, self.now)
    }

    /// Converts the end of a lease, which may be later than now.
    fn end(&self, stamp: Stamp) -> Timestamp {
        match stamp.boot_id == self.boot_id {
            true => Timestamp { boot: stamp.boot, wall: stamp.wall },
            false => self.moment(stamp),
        }
    }

    pub(super) fn put_thread(&self, header: &Header, out: &mut Vec<u8>) {
        put_number(1, header.revision, out);
        put_number(2, nanos(header.pause.accrued), out);
        header.pause.since.into_iter().for_each(|since| self.put_stamp(3, since, out));
        self.put_stamp(4, header.changed, out);
    }

    pub(super) fn header(&self, row: &ThreadRow) -> Header {
        let since = row.paused_since.map(|since| self.moment(since));
        let pause = Pause { accrued: Duration::from_nanos(row.accrued_ns), since };
        Header { revision: row.revision, pause, changed: self.moment(row.changed) }
    }

    pub(super) fn put_elicitation(&self, thread: &ThreadId, open: &Open, out: &mut Vec<u8>) {
        put_bytes(1, thread.as_str().as_bytes(), out);
        put_bytes(2, &open.elicitation.id.0.to_be_bytes(), out);
        put_bytes(3, open.elicitation.reason.as_bytes(), out);
        put_bytes(4, open.elicitation.holder.as_bytes(), out);
        self.put_stamp(5, open.elicitation.created, out);
        open.lease.into_iter().for_each(|(length, _)| put_number(6, nanos(length), out));
        put_number(7, open.anonymous.into(), out);
        open.lease
            .into_iter()
            .filter(|(length, _)| *length >= LONG_LEASE)
            .for_each(|(_, ends)| self.put_stamp(8, ends, out));
    }

    /// The stored end of the lease. `None`: no end is stored, or the stored end is of another clock.
    #[cfg_attr(not(feature = "etcd"), allow(dead_code, reason = "only a fleet keeps ends"))]
    pub(super) fn stored_end(&self, stored: &ElicitationRow) -> Option<Timestamp> {
        let Stamp { boot_id, boot, wall } = stored.ends?;
        (boot_id == self.boot_id).then_some(Timestamp { boot, wall })
    }

    /// The open elicitation. Its lease restarts now, because no holder could renew it while the server was down.
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

    pub(super) fn put_closing(&self, thread: &ThreadId, closing: &RememberedClosing, out: &mut Vec<u8>) {
        put_bytes(1, thread.as_str().as_bytes(), out);
        self.put_stamp(2, closing.at, out);
        let tag = match closing.how {
            PauseEnd::Decremented | PauseEnd::Released => 3,
            PauseEnd::Expired => 4,
            PauseEnd::MaxPause => 7,
        };
        put_bytes(tag, &closing.id.0.to_be_bytes(), out);
        put_number(8, (closing.how == PauseEnd::Released).into(), out);
    }

    pub(super) fn put_request(&self, thread: &ThreadId, request: &RememberedRequest, out: &mut Vec<u8>) {
        let RememberedAnswer { count, revision, opened } = request.answer;
        let row = RequestRow {
            request_id: request.request_id.to_string(),
            fingerprint: request.fingerprint.to_be_bytes().to_vec(),
            count,
            revision,
            opened: opened.map(|(id, _)| id.0.to_be_bytes().to_vec()),
            ends: opened.and_then(|(_, ends)| ends).map(|ends| self.stamp(ends)),
        };
        put_bytes(1, thread.as_str().as_bytes(), out);
        self.put_stamp(2, request.at, out);
        let tag = match request.rpc {
            Rpc::Increment => 5,
            Rpc::Decrement => 6,
        };
        prost::encoding::message::encode(tag, &row, out);
    }

    fn put_stamp(&self, tag: u32, moment: Timestamp, out: &mut Vec<u8>) {
        prost::encoding::message::encode(tag, &self.stamp(moment), out);
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
            Kind::Released(id) if stored.by_admin => closing(&id, PauseEnd::Released),
            Kind::Released(id) => closing(&id, PauseEnd::Decremented),
            Kind::Expired(id) => closing(&id, PauseEnd::Expired),
            Kind::Capped(id) => closing(&id, PauseEnd::MaxPause),
            Kind::Increment(stored) => request(Rpc::Increment, stored),
            Kind::Decrement(stored) => request(Rpc::Decrement, stored),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    const NOW: Timestamp = Timestamp { boot: 5_000_000_000, wall: 1_800_000_000_000_000_000 };

    fn codec() -> RowCodec {
        RowCodec { boot_id: 7, now: NOW }
    }

    fn thread() -> ThreadId {
        ThreadId::parse("", "thread/ä").unwrap()
    }

    #[test]
    fn a_header_reads_back_as_it_was_written() {
        for since in [None, Some(Timestamp { boot: -3, wall: -4 })] {
            let pause = Pause { accrued: Duration::from_nanos(9), since };
            let header = Header { revision: 1 << 40, pause, changed: NOW };
            let mut row = Vec::new();
            codec().put_thread(&header, &mut row);
            assert_eq!(codec().header(&ThreadRow::decode(&row[..]).unwrap()), header);
        }
    }

    #[test]
    fn an_elicitation_reads_back_with_a_new_lease() {
        let elicitation = Elicitation { id: ElicitationId(3), reason: "why".into(), holder: "".into(), created: NOW };
        for lease in [None, Some((Duration::from_secs(30), NOW))] {
            let open = Open { elicitation: Arc::new(elicitation_copy(&elicitation)), lease, anonymous: true, row: 8 };
            let mut row = Vec::new();
            codec().put_elicitation(&thread(), &open, &mut row);
            let stored = ElicitationRow::decode(&row[..]).unwrap();
            assert_eq!(stored.thread, "thread/ä");
            assert_eq!(codec().stored_end(&stored), None, "it is short");
            let renewed = lease.map(|(length, _)| (length, NOW.after(length)));
            assert_eq!(codec().open(8, stored), Some(Open { lease: renewed, ..open }));
        }
    }

    #[test]
    fn the_end_of_a_long_lease_is_stored_for_the_same_clock() {
        let elicitation = Elicitation { id: ElicitationId(3), reason: "".into(), holder: "".into(), created: NOW };
        for (length, stored) in [(LONG_LEASE, true), (LONG_LEASE - Duration::from_millis(1), false)] {
            let lease = Some((length, NOW.after(length)));
            let open = Open { elicitation: Arc::new(elicitation_copy(&elicitation)), lease, anonymous: false, row: 8 };
            let mut row = Vec::new();
            codec().put_elicitation(&thread(), &open, &mut row);
            let row = ElicitationRow::decode(&row[..]).unwrap();
            assert_eq!(codec().stored_end(&row), stored.then_some(NOW.after(length)));
            assert_eq!(RowCodec { boot_id: 8, ..codec() }.stored_end(&row), None, "of another clock");
        }
    }

    fn elicitation_copy(of: &Elicitation) -> Elicitation {
        Elicitation { id: of.id, reason: of.reason.clone(), holder: of.holder.clone(), created: of.created }
    }

    #[test]
    fn memories_read_back_as_they_were_written() {
        for how in [PauseEnd::Decremented, PauseEnd::Released, PauseEnd::Expired, PauseEnd::MaxPause] {
            let closing = RememberedClosing { id: ElicitationId(1), how, at: NOW, row: 4 };
            let mut row = Vec::new();
            codec().put_closing(&thread(), &closing, &mut row);
            let read = codec().remembered(4, MemoryRow::decode(&row[..]).unwrap());
            assert!(matches!(read, Some(Remembered::Closing(read)) if read == closing));
        }
        let opened = Some((ElicitationId(2), Some(NOW.after(Duration::from_secs(9)))));
        for (rpc, opened) in [(Rpc::Increment, opened), (Rpc::Decrement, None)] {
            let answer = RememberedAnswer { count: 1, revision: 2, opened };
            let request = RememberedRequest { rpc, request_id: "r".into(), fingerprint: 5, answer, at: NOW, row: 6 };
            let mut row = Vec::new();
            codec().put_request(&thread(), &request, &mut row);
            let read = codec().remembered(6, MemoryRow::decode(&row[..]).unwrap());
            assert!(matches!(read, Some(Remembered::Request(read)) if read == request));
        }
    }
}
