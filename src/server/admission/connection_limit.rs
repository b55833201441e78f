//! Limits the number of connections, in total and per caller.
//!
//! A connection without a request costs a file descriptor and some memory. At a limit, the oldest connection that has
//! never made a request is closed to admit a new one: a connection of the same caller at the limit per caller; at the
//! total limit, one of the caller with the most such connections, the new one included. Active connections stay. If all
//! are active, the new connection is accepted only to refuse its calls with a reason. At most [`REFUSED`] such
//! connections exist, and the oldest is closed to admit the next.
//!
//! A new connection gets some time for its first request before it can be closed. At the limit per caller, connections
//! are therefore closed in [turns](ConnectionLimiter::turn), for which only new connections of the same caller wait. At
//! the total limit, where all callers have equally few, all new connections wait ([`ConnectionPermit::pause`]).
use super::memory_budget::{ConnectionContext, MemoryBudget};
use super::service_context::ServiceContext;
use crate::clock::Clock;
use crate::coordinator::quota::{CallerKey, LimitPair};
use crate::core::{Exceeded, Limit};
use rustix::process::{Resource, getrlimit};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// File descriptors reserved for other purposes: the store, listeners, runtimes, and connections that are being closed.
const OTHER_FILES: u64 = 64;
/// The maximum number of connections whose calls are refused. File descriptors are reserved for them: without these, no
/// client would learn the reason, and liveness probes would fail.
const REFUSED: u64 = 64;
/// The time for the first request of a new connection during a flood of connections: a request arrives within a round
/// trip.
pub(crate) const FIRST_REQUEST_TIME: Duration = Duration::from_millis(250);
/// The maximum number of accepted connections that wait for their turn. They use the file descriptors for other
/// purposes.
const MOST_WAITING: usize = 16;
/// The resolution of tokio's timers: a shorter wait is none.
const FINEST_TIMER: Duration = Duration::from_millis(1);
/// The retry delay that refused connections are given.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Admits connections.
pub(crate) struct ConnectionLimiter {
    budget: Arc<MemoryBudget>,
    context: Arc<ServiceContext>,
    clock: Arc<dyn Clock>,
    most: LimitPair,
    most_refused: usize,
    most_waiting: usize,
    entered: AtomicU64,
    inside: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    connections: u64,
    /// Connections that may not have made a request yet, oldest first.
    silent: BTreeMap<u64, Arc<ConnectionContext>>,
    of: HashMap<CallerKey, CallerConnections>,
    /// Connections whose calls are refused, oldest first.
    refused: BTreeMap<u64, Arc<ConnectionContext>>,
    /// New connections that wait for a turn of their caller, oldest first.
    waiting: BTreeMap<u64, (CallerKey, CancellationToken)>,
}

/// The connections of one caller.
#[derive(Debug, Default)]
struct CallerConnections {
    connections: u64,
    /// The numbers of those that may not have made a request yet.
    silent: BTreeSet<u64>,
    /// When the next one may be closed to admit a new one.
    next_turn: Duration,
}

/// Whether a new connection can enter.
pub(crate) enum Turn {
    Now,
    Later(Waiting),
}

/// A new connection that waits until it can enter.
pub(crate) struct Waiting {
    limiter: Arc<ConnectionLimiter>,
    number: u64,
    time: Duration,
    given_up: CancellationToken,
}

impl Waiting {
    /// Waits; `false`: the connection is closed instead, because too many others wait.
    pub(crate) async fn over(self) -> bool {
        tokio::select! {
            () = self.given_up.cancelled() => false,
            () = tokio::time::sleep(self.time) => true,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.limiter.lock().waiting.remove(&self.number);
    }
}

/// The permission for one connection; dropping it frees the slot.
pub(crate) struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    number: u64,
    connection: Arc<ConnectionContext>,
    pause: Option<Duration>,
}

impl ConnectionLimiter {
    /// A limiter with the limits of `context`, or lower ones if the process may open fewer files.
    pub(crate) fn new(context: Arc<ServiceContext>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let most = context.limits.connections;
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        // A process that may open only few files, such as one started with `ulimit -n 64`, still serves.
        let most_refused = REFUSED.min(files / 4);
        let slots = (files - most_refused - OTHER_FILES.min(files / 4)).max(1);
        Arc::new(ConnectionLimiter {
            budget: Arc::default(),
            context,
            clock,
            most: within_slots(most, slots),
            most_refused: most_refused as usize,
            most_waiting: MOST_WAITING.min(files as usize / 16).max(1),
            entered: AtomicU64::default(),
            inside: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.inside.lock().expect("no panic while locked")
    }

    /// The number of open connections.
    pub(crate) fn connections(&self) -> u64 {
        self.lock().connections
    }

    /// Whether a new connection of this caller has to wait, because it would close another one of the caller and the last
    /// such time was a moment ago. If too many wait, the oldest of the same caller gives up, else the oldest of all.
    pub(crate) fn turn(self: &Arc<Self>, key: &CallerKey) -> Turn {
        let now = self.clock.awake();
        let mut inside = self.lock();
        let Some(own) = inside.of.get_mut(key) else { return Turn::Now };
        let Some(allowed) = self.most.per_caller.filter(|&allowed| own.connections >= allowed) else {
            return Turn::Now;
        };
        let step = FIRST_REQUEST_TIME / u32::try_from(allowed).unwrap_or(u32::MAX).max(1);
        // Without one, the new connection closes none: it is refused.
        if step < FINEST_TIMER || own.silent.is_empty() {
            return Turn::Now;
        }
        let longest = step * u32::try_from(self.most_waiting).unwrap_or(u32::MAX);
        let time = own.next_turn.saturating_sub(now).min(longest);
        own.next_turn = now + time + step;
        if time < FINEST_TIMER {
            return Turn::Now;
        }
        if inside.waiting.len() >= self.most_waiting {
            let of_caller = inside.waiting.iter().find(|(_, (of, _))| of == key).map(|(number, _)| *number);
            let oldest = of_caller.or_else(|| inside.waiting.keys().next().copied());
            if let Some((_, given_up)) = oldest.and_then(|oldest| inside.waiting.remove(&oldest)) {
                given_up.cancel();
            }
        }
        let (number, given_up) = (self.entered.fetch_add(1, Relaxed), CancellationToken::new());
        inside.waiting.insert(number, (key.clone(), given_up.clone()));
        Turn::Later(Waiting { limiter: self.clone(), number, time, given_up })
    }

    /// Admits a connection of this caller, at the cost of another one if a limit is reached.
    pub(crate) fn enter(self: &Arc<Self>, key: CallerKey) -> ConnectionPermit {
        self.context.metrics.connections.add_one();
        let account = self.context.accounts.of(key.clone(), self.clock.awake());
        let number = self.entered.fetch_add(1, Relaxed);
        let mut inside = self.lock();
        let (pause, refused) = match inside.make_room(self.most, &key) {
            Ok(pause) => (pause, None),
            Err(exceeded) => (None, Some(exceeded)),
        };
        let connection = self.budget.connection(account, refused);
        match connection.refused() {
            None => {
                inside.connections += 1;
                inside.silent.insert(number, connection.clone());
                let own = inside.of.entry(key).or_default();
                own.connections += 1;
                own.silent.insert(number);
            }
            Some(exceeded) => {
                self.context.metrics.refuse(exceeded.limit);
                inside.refused.insert(number, connection.clone());
                if inside.refused.len() > self.most_refused
                    && let Some((_, oldest)) = inside.refused.pop_first()
                {
                    oldest.closing().cancel();
                }
            }
        }
        ConnectionPermit { limiter: self.clone(), number, connection, pause }
    }

    /// Closes all connections that have not made a request, and stops waiting for incomplete requests.
    pub(crate) fn close_up(&self) {
        self.budget.wait_no_longer();
        let inside = self.lock();
        let silent = inside.silent.values().filter(|connection| !connection.is_active());
        silent.chain(inside.refused.values()).for_each(|connection| connection.closing().cancel());
    }
}

impl Connections {
    /// Closes a silent connection if a limit is reached, and then returns how long to wait before the next accept.
    fn make_room(&mut self, most: LimitPair, key: &CallerKey) -> Result<Option<Duration>, Exceeded> {
        let turn = |slots: u64| Some(FIRST_REQUEST_TIME / u32::try_from(slots).unwrap_or(u32::MAX).max(1));
        let has = self.of.get(key).map_or(0, |own| own.connections);
        if let Some(allowed) = most.per_caller.filter(|&allowed| has >= allowed) {
            let oldest = self.oldest_silent(|inside| inside.of.get_mut(key)?.silent.pop_first());
            let refused = || exceeded(Limit::ConnectionsPerCaller, has, allowed, Some(key.name()));
            oldest.ok_or_else(refused)?.closing().cancel();
            return Ok(Some(Duration::ZERO));
        }
        if let Some(allowed) = most.in_all.filter(|&allowed| self.connections >= allowed) {
            let oldest = self.oldest_silent(|inside| inside.silent_of_the_most(key));
            let refused = || exceeded(Limit::Connections, allowed, allowed, None);
            let closed = oldest.ok_or_else(refused)?;
            closed.closing().cancel();
            // One that was closed for its caller's many connections is no loss.
            let left = self.of.get(closed.account().key()).map_or(0, |own| own.silent.len());
            return Ok(if left == 0 { turn(allowed) } else { Some(Duration::ZERO) });
        }
        Ok(None)
    }

    /// Takes the oldest silent connection of the caller with the most of them, if a new one of `key` is counted too.
    fn silent_of_the_most(&mut self, key: &CallerKey) -> Option<u64> {
        let silent = self.of.iter_mut().filter(|(_, own)| !own.silent.is_empty());
        let most = silent.max_by_key(|(of, own)| {
            (own.silent.len() + usize::from(*of == key), std::cmp::Reverse(own.silent.first().copied()))
        });
        most?.1.silent.pop_first()
    }

    /// The first connection from `next` that has not made a request. Active ones are removed from the list, so that
    /// each is checked once.
    fn oldest_silent(&mut self, next: impl Fn(&mut Connections) -> Option<u64>) -> Option<Arc<ConnectionContext>> {
        loop {
            let number = next(self)?;
            let connection = self.silent.remove(&number);
            if let Some(own) = connection.as_ref().and_then(|connection| self.of.get_mut(connection.account().key())) {
                own.silent.remove(&number);
            }
            if connection.as_ref().is_some_and(|connection| !connection.is_active()) {
                return connection;
            }
        }
    }
}

/// The limits for a process that can have `slots` connections. If the total is lowered, the limit per caller is lowered to
/// half of it.
fn within_slots(most: LimitPair, slots: u64) -> LimitPair {
    let in_all = most.in_all.filter(|most| *most <= slots);
    let own = |own: u64| if in_all.is_some() { own } else { own.min(slots / 2).max(1) };
    LimitPair { in_all: Some(in_all.unwrap_or(slots)), per_caller: most.per_caller.map(own) }
}

fn exceeded(limit: Limit, was: u64, allowed: u64, caller: Option<Box<str>>) -> Exceeded {
    Exceeded { limit, was, allowed, caller, retry_after: RETRY_AFTER }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut inside = self.limiter.lock();
        if self.connection.refused().is_some() {
            inside.refused.remove(&self.number);
            return;
        }
        inside.connections -= 1;
        inside.silent.remove(&self.number);
        let key = self.connection.account().key();
        if let Some(own) = inside.of.get_mut(key) {
            own.connections -= 1;
            own.silent.remove(&self.number);
            if own.connections == 0 {
                inside.of.remove(key);
            }
        }
    }
}

impl ConnectionPermit {
    /// Set if another connection was closed: how long to wait before the next accept.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.pause
    }

    /// Cancelled when the connection must be closed.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.connection.closing().clone()
    }

    pub(super) fn connection(&self) -> &Arc<ConnectionContext> {
        &self.connection
    }
}

#[cfg(test)]
mod tests {
    use super::super::admitted_stream::AdmittedStream;
    use super::*;
    use crate::clock::System;
    use crate::coordinator::quota::Limits;
    use std::io;
    use tokio::io::AsyncReadExt;

    const HOST: CallerKey = CallerKey::User(1);
    const OTHER: CallerKey = CallerKey::User(2);

    fn limiter(in_all: u64, per_caller: u64) -> Arc<ConnectionLimiter> {
        let connections = LimitPair { in_all: Some(in_all), per_caller: Some(per_caller) };
        let limits = Limits { connections, ..Limits::default() };
        let context = ServiceContext { limits, ..ServiceContext::default() };
        ConnectionLimiter::new(Arc::new(context), Arc::new(System::new()))
    }

    fn limit(permit: &ConnectionPermit) -> Option<Limit> {
        permit.connection.refused().map(|refused| refused.limit)
    }

    #[test]
    fn g7_one_caller_gets_half_of_a_total_that_the_limit_of_files_lowers() {
        let within = |in_all, per_caller| {
            let most = within_slots(LimitPair { in_all, per_caller }, 100);
            (most.in_all, most.per_caller)
        };
        assert_eq!(within(Some(100), Some(80)), (Some(100), Some(80)));
        assert_eq!(within(Some(101), Some(80)), (Some(100), Some(50)));
        assert_eq!(within(None, Some(80)), (Some(100), Some(50)));
        assert_eq!(within(None, Some(20)), (Some(100), Some(20)));
        assert_eq!(within(None, None), (Some(100), None));
    }

    #[tokio::test]
    async fn g7_the_oldest_silent_connection_is_closed_for_a_new_one() {
        let limiter = limiter(2, 2);
        let enter = |key| AdmittedStream::new(tokio::io::empty(), limiter.enter(key));
        let (first, second) = (enter(HOST), enter(OTHER));
        assert!(!first.connection().closing().is_cancelled());
        let mut third = enter(CallerKey::User(3));
        assert!(first.connection().closing().is_cancelled() && !second.connection().closing().is_cancelled());
        let (mut stream, _other) = tokio::io::duplex(1);
        let mut waiting = AdmittedStream::new(&mut stream, first.into_permit());
        let closed = waiting.read_u8().await.expect_err("it was closed");
        assert_eq!(closed.kind(), io::ErrorKind::ConnectionAborted);
        assert_eq!(third.read(&mut [0; 8]).await.expect("it is open"), 0);
    }

    /// Connections of this caller arrive, and wait for their turn or not.
    async fn arrive(limiter: &Arc<ConnectionLimiter>, key: CallerKey) -> Option<ConnectionPermit> {
        match limiter.turn(&key) {
            Turn::Now => Some(limiter.enter(key)),
            Turn::Later(waiting) => waiting.over().await.then(|| limiter.enter(key)),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn g7_a_caller_at_its_limit_waits_for_its_turns_and_others_do_not_wait_for_it() {
        let limits = Limits { connections: LimitPair { in_all: Some(64), per_caller: Some(32) }, ..Limits::default() };
        let clock = Arc::new(crate::clock::Manual::new(crate::core::Timestamp { boot: 0, wall: 0 }, 1));
        clock.advance(Duration::from_secs(9));
        let context = ServiceContext { limits, ..ServiceContext::default() };
        let limiter = ConnectionLimiter::new(Arc::new(context), clock);
        let began = tokio::time::Instant::now();
        let mut flood = Vec::new();
        for _ in 0..33 {
            flood.push(arrive(&limiter, HOST).await.expect("its turn"));
        }
        assert_eq!(began.elapsed(), Duration::ZERO, "the first one that closes another need not wait");
        let waiting: Vec<_> = (0..10_000)
            .map(|_| {
                tokio::spawn({
                    let limiter = limiter.clone();
                    async move { arrive(&limiter, HOST).await }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        let honest = arrive(&limiter, OTHER).await.expect("it enters");
        assert!(began.elapsed().is_zero() && honest.pause().is_none(), "it does not wait for the caller with many");
        let mut entered = 0;
        for one in waiting {
            let permit = one.await.unwrap();
            entered += usize::from(permit.is_some());
            flood.extend(permit);
        }
        assert_eq!(entered, MOST_WAITING, "the last ones of the flood wait, the others are closed");
        assert!(began.elapsed() >= FIRST_REQUEST_TIME / 32, "each has the time for a first request");
        assert!(!honest.connection.closing().is_cancelled());
        assert!(limiter.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn g7_at_the_total_limit_the_caller_with_the_most_silent_connections_gives_way() {
        let limiter = limiter(8, 8);
        let oldest = limiter.enter(OTHER);
        let many: Vec<_> = (0..7).map(|_| limiter.enter(HOST)).collect();
        let newcomer = limiter.enter(CallerKey::User(3));
        assert!(many[0].connection.closing().is_cancelled() && !oldest.connection.closing().is_cancelled());
        assert_eq!(newcomer.pause(), Some(Duration::ZERO), "the caller has others");
        let again = limiter.enter(HOST);
        assert!(many[1].connection.closing().is_cancelled(), "its own are the most");
        assert!([&oldest, &newcomer, &again].iter().all(|permit| !permit.connection.closing().is_cancelled()));
    }

    #[tokio::test]
    async fn g7_where_all_callers_have_one_silent_connection_new_ones_are_accepted_later() {
        let limiter = limiter(50, 50);
        let permits: Vec<_> = (0..51).map(|id| limiter.enter(CallerKey::User(id))).collect();
        let pauses: Vec<_> = permits.iter().filter_map(ConnectionPermit::pause).collect();
        assert_eq!(
            (pauses[..].len(), pauses[0] * 50),
            (1, FIRST_REQUEST_TIME),
            "each has the time for a first request before it can be closed"
        );
    }

    #[tokio::test]
    async fn active_connections_stay_and_closed_ones_free_their_slot() {
        let limiter = limiter(1, 1);
        let permit = limiter.enter(HOST);
        permit.connection.mark_active();
        assert_eq!(limit(&limiter.enter(OTHER)), Some(Limit::Connections));
        assert!(!permit.connection.closing().is_cancelled());
        drop(permit);
        assert_eq!(limit(&limiter.enter(OTHER)), None);
        assert_eq!(limiter.connections(), 0);
        assert!(limiter.lock().of.is_empty() && limiter.lock().refused.is_empty());
    }

    #[tokio::test]
    async fn g7_a_caller_at_its_limit_of_connections_does_not_affect_others() {
        let limiter = limiter(4, 2);
        let of_other = limiter.enter(OTHER);
        let own: Vec<_> = (0..3).map(|_| limiter.enter(HOST)).collect();
        assert!(own[0].connection.closing().is_cancelled() && own.iter().all(|permit| limit(permit).is_none()));
        drop(own);
        let own = [limiter.enter(HOST), limiter.enter(HOST)];
        own.iter().for_each(|permit| permit.connection.mark_active());
        let refused: Vec<_> = (0..=REFUSED).map(|_| limiter.enter(HOST)).collect();
        assert!(refused.iter().all(|permit| limit(permit) == Some(Limit::ConnectionsPerCaller)));
        assert!(refused[0].connection.closing().is_cancelled() && !refused[1].connection.closing().is_cancelled());
        assert!(limit(&limiter.enter(OTHER)).is_none() && !of_other.connection.closing().is_cancelled());
        assert_eq!(limiter.context.metrics.refused(Limit::ConnectionsPerCaller), REFUSED + 1);
    }
}
