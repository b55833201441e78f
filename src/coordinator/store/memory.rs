//! A store that keeps nothing: for tests, for a private coordinator, and for users who prefer speed to durability.
use super::{CommitError, Contents, OpenError, Store, Write, new_epoch};
use crate::core::Timestamp;

/// The store that keeps nothing.
#[derive(Debug, Default)]
pub struct Memory;

impl Store for Memory {
    /// Nothing was kept, so an earlier process may have used any revision. The floor is the wall clock in microseconds:
    /// no thread changes a million times a second, so revisions rise across restarts here too.
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
