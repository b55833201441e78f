//! What connections have the server keep for them, and whose it is when that becomes too much.
//!
//! A request that has not come whole, and an answer that has not been taken, stay in memory for as long as the other side
//! likes. Each alone is small, but a connection may have ten thousand, and a client many connections. So they are
//! counted, all together; and when they take more than [`MemoryBudget`] has, the connection that has the most of it is closed.
//! Whoever sends and reads as usual has next to nothing here, and does not notice.
use crate::coordinator::quota::Account;
use crate::core::Exceeded;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

/// Bytes that half requests and answers on their way may take together: 80 of the largest answers.
const MOST: usize = 128 << 20;

/// Bounded memory that connections share.
#[derive(Debug, Default)]
pub(crate) struct MemoryBudget {
    held: Mutex<Usage>,
    next_guest: AtomicU64,
    too_late: CancellationToken,
}

#[derive(Debug, Default)]
struct Usage {
    total: usize,
    /// By the number of the connection.
    of: HashMap<u64, ConnectionUsage>,
}

#[derive(Debug)]
struct ConnectionUsage {
    bytes: usize,
    closing: CancellationToken,
}

/// A connection, as far as its requests are concerned.
#[derive(Debug)]
pub(crate) struct ConnectionContext {
    number: u64,
    room: Arc<MemoryBudget>,
    closing: CancellationToken,
    has_asked: AtomicBool,
    account: Arc<Account>,
    /// Why none of its calls is let in.
    refused: Option<Exceeded>,
}

/// Bytes of the room. Dropped, they are free again.
#[derive(Debug)]
pub(crate) struct MemoryReservation {
    guest: Arc<ConnectionContext>,
    bytes: usize,
}

impl MemoryBudget {
    /// A new connection of this caller. `refused`: one that is only told why it is.
    pub(crate) fn guest(self: &Arc<Self>, account: Arc<Account>, refused: Option<Exceeded>) -> Arc<ConnectionContext> {
        let (number, room) = (self.next_guest.fetch_add(1, Relaxed), self.clone());
        let (closing, has_asked) = (CancellationToken::new(), false.into());
        Arc::new(ConnectionContext { number, room, closing, has_asked, account, refused })
    }

    /// From now on, a request that has not come whole is refused: the server stops.
    pub(crate) fn wait_no_longer(&self) {
        self.too_late.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.held.lock().expect("no panic while locked")
    }
}

impl Usage {
    fn add(&mut self, guest: &ConnectionContext, bytes: usize) {
        // A connection that was told to close is off the books: it must not come back for what it still does.
        if guest.closing.is_cancelled() {
            return;
        }
        self.total += bytes;
        let new = || ConnectionUsage { bytes: 0, closing: guest.closing.clone() };
        self.of.entry(guest.number).or_insert_with(new).bytes += bytes;
        while self.total > MOST {
            let most = self.of.iter().max_by_key(|(_, holding)| holding.bytes).map(|(number, _)| *number);
            let Some(closed) = most.and_then(|number| self.of.remove(&number)) else { return };
            // Its memory is free a moment later, when its task has seen it.
            self.total -= closed.bytes;
            closed.closing.cancel();
        }
    }

    fn remove(&mut self, guest: &ConnectionContext, bytes: usize) {
        let Some(holding) = self.of.get_mut(&guest.number) else { return };
        let bytes = bytes.min(holding.bytes);
        holding.bytes -= bytes;
        self.total -= bytes;
        if holding.bytes == 0 {
            self.of.remove(&guest.number);
        }
    }
}

impl ConnectionContext {
    pub(crate) fn hold(self: &Arc<Self>, bytes: usize) -> MemoryReservation {
        self.room.lock().add(self, bytes);
        MemoryReservation { guest: self.clone(), bytes }
    }

    /// Notes that a request has come.
    pub(crate) fn asks(&self) {
        self.has_asked.store(true, Relaxed);
    }

    /// Whether a request has ever come.
    pub(crate) fn has_asked(&self) -> bool {
        self.has_asked.load(Relaxed)
    }

    /// Whose connection it is.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Why none of its calls is let in.
    pub(crate) fn refused(&self) -> Option<&Exceeded> {
        self.refused.as_ref()
    }

    /// When this is cancelled, nobody waits for the rest of a request any more.
    pub(crate) fn too_late(&self) -> &CancellationToken {
        &self.room.too_late
    }

    /// The connection is to be closed when this is cancelled.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }
}

impl MemoryReservation {
    pub(crate) fn grow(&mut self, bytes: usize) {
        self.guest.room.lock().add(&self.guest, bytes);
        self.bytes += bytes;
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.guest.room.lock().remove(&self.guest, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::quota::{Accounts, CallerKey};
    use std::time::Duration;

    fn guest(room: &Arc<MemoryBudget>) -> Arc<ConnectionContext> {
        room.guest(Accounts::default().of(CallerKey::Unknown, Duration::ZERO), None)
    }

    #[test]
    fn g7_the_connection_that_holds_the_most_is_closed_and_the_others_are_not() {
        let room = Arc::<MemoryBudget>::default();
        let (greedy, modest, late) = (guest(&room), guest(&room), guest(&room));
        let _modest = modest.hold(1 << 20);
        let mut held: Vec<_> = (0..MOST >> 20).map(|_| greedy.hold((1 << 20) - 1)).collect();
        held[0].grow(1);
        assert!(greedy.closing().is_cancelled(), "it would be above the most");
        let _late = late.hold(MOST - (1 << 20));
        assert!(!late.closing().is_cancelled(), "what the closed one held is free");
        drop(held);
        assert!(!modest.closing().is_cancelled() && !late.closing().is_cancelled());
        assert_eq!(room.lock().total, MOST);
    }

    #[test]
    fn what_is_given_back_is_free() {
        let room = Arc::<MemoryBudget>::default();
        let guest = guest(&room);
        for _ in 0..10 {
            let mut held = guest.hold(MOST / 2);
            held.grow(MOST / 2);
        }
        assert!(!guest.closing().is_cancelled());
        assert!(room.lock().total == 0 && room.lock().of.is_empty());
    }
}
