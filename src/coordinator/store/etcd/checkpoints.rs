//! The checkpoints of a term. They begin once the changes of earlier terms are known; entries that are committed before
//! then are kept in memory.
use super::checkpoint::Checkpoint;
use super::record::Keys;
use super::wire::RequestOp;

pub(super) struct Checkpoints {
    checkpoint: Checkpoint,
    /// The entries that were committed before checkpoints begin; `None`: they have begun.
    early: Option<Vec<Early>>,
}

/// An entry with its number and clock, and the batch that it completes.
struct Early {
    seq: u64,
    clock: i64,
    batch: Option<Vec<u8>>,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Checkpoints { checkpoint: Checkpoint::default(), early: Some(Vec::new()) }
    }
}

impl Checkpoints {
    /// Begins to make checkpoints.
    ///
    /// # Errors
    /// A committed entry has no valid batch.
    pub(super) fn begin(&mut self, left_behind: Checkpoint) -> Result<(), &'static str> {
        self.checkpoint = left_behind;
        let early = self.early.take().unwrap_or_default();
        early.into_iter().try_for_each(|Early { seq, clock, batch }| self.entry(seq, clock, batch.as_deref()))
    }

    pub(super) fn have_begun(&self) -> bool {
        self.early.is_none()
    }

    /// Adds a committed entry. `batch`: the batch that it completes.
    ///
    /// # Errors
    /// `batch` is not a batch.
    pub(super) fn entry(&mut self, seq: u64, clock: i64, batch: Option<&[u8]>) -> Result<(), &'static str> {
        if let Some(early) = &mut self.early {
            early.push(Early { seq, clock, batch: batch.map(<[u8]>::to_vec) });
            return Ok(());
        }
        self.checkpoint.entry(seq, clock);
        batch.map_or(Ok(()), |batch| self.checkpoint.add(seq, clock, batch))
    }

    /// The operations of the next transaction, if checkpoints have begun and something is due at `now`; `last`: the
    /// last entry. Call it again when that transaction is done.
    pub(super) fn next(&mut self, keys: &Keys, last: u64, now: i64) -> Option<Vec<RequestOp>> {
        self.have_begun().then(|| self.checkpoint.next(keys, last, now)).flatten()
    }

    /// Whether the next step should come soon.
    pub(super) fn are_being_written(&self) -> bool {
        self.checkpoint.is_writing()
    }

    /// Bytes of the log that are not part of a checkpoint yet.
    pub(super) fn bytes(&self) -> u64 {
        self.checkpoint.bytes()
    }
}
