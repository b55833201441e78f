//! Keeps nothing: for tests, for a private coordinator, and for who prefers speed to memory of a crash.
use super::{CommitError, Contents, OpenError, Store, Write, new_epoch};
use crate::core::Timestamp;

/// The store that forgets.
#[derive(Debug, Default)]
pub struct Memory;

impl Store for Memory {
    /// Nothing was kept, so that any revision may have been used by an earlier process. The floor is the wall clock in
    /// microseconds: no thread changes a million times a second, so that revisions rise across restarts here too.
    fn load(&mut self, now: Timestamp) -> Result<Contents, OpenError> {
        let epoch = new_epoch().map_err(|error| OpenError::Io(format!("get random numbers: {error}")))?;
        Ok(Contents { floor: u64::try_from(now.wall / 1_000).unwrap_or(0), epoch, ..Contents::default() })
    }

    fn commit(&mut self, _batch: &[Write<'_>]) -> Result<(), CommitError> {
        Ok(())
    }

    fn keeps(&self) -> bool {
        false
    }
}
