//! Bounds the memory that connections make the server hold.
//!
//! An incomplete request, and an answer that the client has not read, stay in memory for as long as the client
//! likes. Each is small, but a connection may have ten thousand of them, and a client many connections. Therefore
//! their total is counted. When it exceeds [`MOST`], the server closes connections ([`gives_way`]). A client that sends
//! and reads normally holds almost nothing, and not for long.
use super::gives_way::{self, Held};
use crate::coordinator::quota::Account;
use crate::core::Exceeded;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The maximum total of incomplete requests and unread answers, in bytes.
const MOST: usize = 128 << 20;

/// The memory budget that all connections share.
#[derive(Debug, Default)]
pub(crate) struct MemoryBudget {
    held: Mutex<Usage>,
    next_number: AtomicU64,
    /// Counts the beginnings and the progress of connections that hold memory: their order is all that matters.
    events: AtomicU64,
    too_late: CancellationToken,
}

#[derive(Debug, Default)]
struct Usage {
    total: usize,
    /// Usage by the memory address of the account, which is valid because each connection keeps its account.
    by_caller: HashMap<usize, usize>,
    /// Whether connections are being closed because the total was exceeded. This was logged.
    is_exceeded: bool,
    /// Usage by the number of the connection.
    of: HashMap<u64, ConnectionUsage>,
}

#[derive(Debug)]
struct ConnectionUsage {
    bytes: usize,
    caller: usize,
    account: Arc<Account>,
    closing: CancellationToken,
    since: Arc<AtomicU64>,
}

/// The state of a connection that its requests share.
#[derive(Debug)]
pub(crate) struct ConnectionContext {
    number: u64,
    budget: Arc<MemoryBudget>,
    closing: CancellationToken,
    is_active: AtomicBool,
    is_stuck: AtomicBool,
    /// The event since which the connection holds memory and has not read.
    since: Arc<AtomicU64>,
    account: Arc<Account>,
    /// The reason if all calls of the connection are refused.
    refused: Option<Exceeded>,
    /// The room for answers on the connection of another replica.
    room: OnceLock<Arc<Semaphore>>,
}

/// Reserved bytes of the budget; dropping the reservation frees them.
#[derive(Debug)]
pub(crate) struct MemoryReservation {
    connection: Arc<ConnectionContext>,
    bytes: usize,
}

impl MemoryBudget {
    /// The context of a new connection of this caller. `refused`: the reason if all its calls are refused.
    pub(crate) fn connection(
        self: &Arc<Self>,
        account: Arc<Account>,
        refused: Option<Exceeded>,
    ) -> Arc<ConnectionContext> {
        let (number, budget) = (self.next_number.fetch_add(1, Relaxed), self.clone());
        let (closing, is_active, is_stuck) = (CancellationToken::new(), false.into(), false.into());
        let (since, room) = (Arc::default(), OnceLock::new());
        Arc::new(ConnectionContext { number, budget, closing, is_active, is_stuck, since, account, refused, room })
    }

    /// From now on, incomplete requests are refused, because the server stops.
    pub(crate) fn wait_no_longer(&self) {
        self.too_late.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.held.lock().expect("no panic while locked")
    }
}

impl Usage {
    fn add(&mut self, connection: &ConnectionContext, bytes: usize) {
        // A connection that is being closed is no longer counted, and must not be added again.
        if connection.closing.is_cancelled() {
            return;
        }
        let caller = Arc::as_ptr(&connection.account).addr();
        self.total += bytes;
        *self.by_caller.entry(caller).or_default() += bytes;
        let new = || ConnectionUsage {
            bytes: 0,
            caller,
            account: connection.account.clone(),
            closing: connection.closing.clone(),
            since: connection.since.clone(),
        };
        let holding = self.of.entry(connection.number).or_insert_with(|| {
            connection.progressed();
            new()
        });
        holding.bytes += bytes;
        while self.total > MOST {
            let held = self.of.iter().map(|(number, of)| Held {
                number: *number,
                caller: of.caller,
                bytes: of.bytes,
                since: of.since.load(Relaxed),
            });
            let next = gives_way::next(&self.by_caller, held);
            let Some(closed) = next.and_then(|number| self.of.remove(&number)) else { return };
            // Its memory is freed a little later, when its task notices.
            self.free(closed.caller, closed.bytes);
            closed.closing.cancel();
            if !std::mem::replace(&mut self.is_exceeded, true) {
                let caller = closed.account.key().name();
                tracing::warn!(%caller, "requests that are incomplete and answers that are not read exceed {MOST} bytes: connections are closed");
            }
        }
    }

    fn free(&mut self, caller: usize, bytes: usize) {
        self.total -= bytes;
        if self.total < MOST / 2 {
            self.is_exceeded = false;
        }
        if let Entry::Occupied(mut of_caller) = self.by_caller.entry(caller) {
            *of_caller.get_mut() -= bytes;
            if *of_caller.get() == 0 {
                of_caller.remove();
            }
        }
    }

    fn remove(&mut self, connection: &ConnectionContext, bytes: usize) {
        let Some(holding) = self.of.get_mut(&connection.number) else { return };
        let bytes = bytes.min(holding.bytes);
        holding.bytes -= bytes;
        let (caller, is_empty) = (holding.caller, holding.bytes == 0);
        if is_empty {
            self.of.remove(&connection.number);
        }
        self.free(caller, bytes);
    }
}

impl ConnectionContext {
    pub(crate) fn hold(self: &Arc<Self>, bytes: usize) -> MemoryReservation {
        self.budget.lock().add(self, bytes);
        MemoryReservation { connection: self.clone(), bytes }
    }

    /// Notes that the client has read a part of an answer.
    pub(super) fn progressed(&self) {
        self.since.store(self.budget.events.fetch_add(1, Relaxed), Relaxed);
    }

    /// The bytes that it holds.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.budget.lock().of.get(&self.number).map_or(0, |holding| holding.bytes)
    }

    /// Notes that the connection has made a request.
    pub(crate) fn mark_active(&self) {
        self.is_active.store(true, Relaxed);
    }

    /// Whether the connection has ever made a request.
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.load(Relaxed)
    }

    /// Notes whether nothing can be written because the client does not read.
    pub(crate) fn set_stuck(&self, is_stuck: bool) {
        self.is_stuck.store(is_stuck, Relaxed);
    }

    /// Whether nothing can be written at present.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Relaxed)
    }

    /// The account of the caller.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// The reason if all calls of the connection are refused.
    pub(crate) fn refused(&self) -> Option<&Exceeded> {
        self.refused.as_ref()
    }

    /// The room for answers that the peer has not read. The first call sets the number of its units to `size`.
    #[cfg_attr(not(feature = "etcd"), allow(dead_code, reason = "only replicas use one"))]
    pub(crate) fn room(&self, size: u32) -> &Arc<Semaphore> {
        self.room.get_or_init(|| Arc::new(Semaphore::new(size as usize)))
    }

    /// Cancelled when the server no longer waits for incomplete requests.
    pub(crate) fn too_late(&self) -> &CancellationToken {
        &self.budget.too_late
    }

    /// Cancelled when the connection must be closed.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }
}

impl MemoryReservation {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn grow(&mut self, bytes: usize) {
        self.connection.budget.lock().add(&self.connection, bytes);
        self.bytes += bytes;
    }

    pub(crate) fn resize(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.grow(more),
            None => {
                self.connection.budget.lock().remove(&self.connection, self.bytes - bytes);
                self.bytes = bytes;
            }
        }
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.connection.budget.lock().remove(&self.connection, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::quota::{Accounts, CallerKey};
    use std::time::Duration;

    fn connection(budget: &Arc<MemoryBudget>) -> Arc<ConnectionContext> {
        budget.connection(Accounts::default().of(CallerKey::Unknown, Duration::ZERO), None)
    }

    #[test]
    fn g7_the_connection_that_holds_the_most_is_closed_and_the_others_are_not() {
        let budget = Arc::<MemoryBudget>::default();
        let (greedy, modest, late) = (connection(&budget), connection(&budget), connection(&budget));
        let _modest = modest.hold(1 << 20);
        let mut held: Vec<_> = (0..MOST >> 20).map(|_| greedy.hold((1 << 20) - 1)).collect();
        held[0].grow(1);
        assert!(greedy.closing().is_cancelled(), "it would be above the most");
        let _late = late.hold(MOST - (1 << 20));
        assert!(!late.closing().is_cancelled(), "what the closed one held is free");
        drop(held);
        assert!(!modest.closing().is_cancelled() && !late.closing().is_cancelled());
        assert_eq!(budget.lock().total, MOST);
    }

    /// Many small shares of one caller are a large one.
    #[test]
    fn g7_the_connections_of_the_caller_that_holds_the_most_are_closed_first() {
        let budget = Arc::<MemoryBudget>::default();
        let accounts = Accounts::default();
        let of = |id| budget.connection(accounts.of(CallerKey::User(id), Duration::ZERO), None);
        let honest = of(1);
        let _listing = honest.hold(2 << 20);
        let greedy: Vec<_> = (0..256).map(|_| of(2)).collect();
        let held: Vec<_> = greedy.iter().map(|connection| connection.hold(1 << 20)).collect();
        assert!(!honest.closing().is_cancelled());
        assert_eq!(greedy.iter().filter(|connection| connection.closing().is_cancelled()).count(), 130);
        drop(held);
        let state = budget.lock();
        assert_eq!((state.total, state.of.len(), state.by_caller.len()), (2 << 20, 1, 1));
    }

    #[test]
    fn released_memory_is_free() {
        let budget = Arc::<MemoryBudget>::default();
        let connection = connection(&budget);
        for _ in 0..10 {
            let mut held = connection.hold(MOST / 2);
            held.grow(MOST / 2);
        }
        assert!(!connection.closing().is_cancelled());
        let state = budget.lock();
        assert!(state.total == 0 && state.of.is_empty() && state.by_caller.is_empty());
    }

    /// Each has a smaller share than a normal answer.
    #[test]
    fn g7_many_callers_with_small_shares_give_way_to_an_answer_that_is_read() {
        let budget = Arc::<MemoryBudget>::default();
        let accounts = Accounts::default();
        let of = |id| budget.connection(accounts.of(CallerKey::User(id), Duration::ZERO), None);
        let mut attack: Vec<_> = (2..1_200).map(of).map(|silent| (silent.hold(128 << 10), silent)).collect();
        for _ in 0..3 {
            let honest = of(1);
            let _listing = honest.hold(5 << 20);
            // The attacker goes on with new connections, and the honest caller reads.
            for id in 0..200 {
                let silent = of(20_000 + id);
                attack.push((silent.hold(128 << 10), silent));
            }
            honest.progressed();
            for id in 0..400 {
                let silent = of(30_000 + id);
                attack.push((silent.hold(128 << 10), silent));
            }
            assert!(!honest.closing().is_cancelled());
            assert!(budget.lock().total <= MOST);
        }
        drop(attack);
        assert_eq!(budget.lock().total, 0);
    }
}
