//! The periodic work of a leader on etcd: it checks the free space, and compacts the history of the keys.
use super::kv::Kv;
use super::pulse::Pulse;
use std::sync::atomic::Ordering::Relaxed;

/// How often the free space of etcd is read (nanoseconds).
const LOOK_EVERY: i64 = 10_000_000_000;
/// How often the history of the keys is compacted (nanoseconds).
const COMPACT_EVERY: i64 = 60_000_000_000;

/// All times are on the clock of the machine.
pub(super) struct Housekeeping {
    /// Whether etcd is compacted.
    pub(super) compact: bool,
    next_look: i64,
    next_compaction: i64,
    /// The revision at the last compaction: the next one compacts up to it.
    forget_before: i64,
}

impl Housekeeping {
    pub(super) fn new(now: i64, compact: bool) -> Self {
        let next_compaction = now.saturating_add(COMPACT_EVERY);
        Housekeeping { compact, next_look: now, next_compaction, forget_before: 0 }
    }

    /// Does the work that is due at `now`; `revision`: that of the last write. A failure is retried at the next
    /// interval.
    pub(super) async fn keep(&mut self, kv: &impl Kv, pulse: &Pulse, revision: i64, now: i64) {
        if now >= self.next_look {
            self.next_look = now.saturating_add(LOOK_EVERY);
            if let Ok(space) = kv.space().await
                && pulse.full.swap(space.is_full(), Relaxed) != space.is_full()
            {
                tracing::warn!(
                    used = space.used,
                    quota = space.quota,
                    "etcd is {}",
                    if space.is_full() { "full" } else { "no longer full" }
                );
            }
        }
        if self.compact && now >= self.next_compaction {
            self.next_compaction = now.saturating_add(COMPACT_EVERY);
            let before = std::mem::replace(&mut self.forget_before, revision);
            if before > 0
                && let Err(error) = kv.compact(before).await
            {
                tracing::debug!(%error, "compact etcd");
            }
        }
    }
}
