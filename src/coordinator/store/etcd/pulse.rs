//! The state of a term, for readers.
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

/// A leader that has not reached etcd for this long (nanoseconds) ends its term, because another replica may lead.
pub(super) const CUT_OFF: i64 = 3_000_000_000;

/// The state of a term, for readers.
#[derive(Debug, Default)]
pub struct Pulse {
    /// When the last attempt began that reached etcd and found this term, on the clock of the machine.
    pub(super) last: AtomicI64,
    /// When the last attempt began that may have written the leader record, on the clock of the machine.
    pub(super) written: AtomicI64,
    pub(super) full: AtomicBool,
    /// The last entry.
    pub(super) seq: AtomicU64,
    /// Attempts whose outcome was unknown.
    pub(super) in_doubt: AtomicU64,
    /// Bytes of the log that are not in rows.
    pub(super) log_bytes: AtomicU64,
}

impl Pulse {
    /// A term whose record was written by an attempt that began at `written`.
    pub(crate) fn at(written: i64) -> Self {
        Pulse { last: AtomicI64::new(written), written: AtomicI64::new(written), ..Pulse::default() }
    }

    /// Records that an attempt that began at `at` found the record of this term.
    pub(crate) fn read_at(&self, at: i64) {
        self.last.store(at, SeqCst);
    }

    /// Whether etcd was reached so recently that this replica may still be the leader.
    pub(crate) fn is_fresh(&self, now: i64) -> bool {
        now.saturating_sub(self.last.load(SeqCst)) < CUT_OFF
    }

    /// When the last attempt began that reached etcd and found this term, on the clock of the machine: no other replica
    /// had decided anything before that.
    pub fn last(&self) -> i64 {
        self.last.load(SeqCst)
    }

    /// When the last attempt began that may have written the leader record, on the clock of the machine. Challengers
    /// measure the silence of the record from that time, or from a later one.
    pub(crate) fn written(&self) -> i64 {
        self.written.load(SeqCst)
    }

    /// The last entry.
    pub(crate) fn seq(&self) -> u64 {
        self.seq.load(SeqCst)
    }

    /// Attempts at etcd whose outcome was unknown.
    pub(crate) fn in_doubt(&self) -> u64 {
        self.in_doubt.load(Relaxed)
    }

    /// Bytes of the log that are not in rows.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Relaxed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }
}
