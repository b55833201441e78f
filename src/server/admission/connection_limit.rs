//! Limits the number of connections, in total and per caller.
//!
//! A connection without a request costs a file descriptor and some memory. At a limit, the oldest connection that has
//! never made a request is closed to admit a new one: a connection of the same caller at the limit per caller, any
//! connection at the total limit. Active connections stay. If all are active, the new connection is accepted only to
//! refuse its calls with a reason. At most [`REFUSED`] such connections exist, and the oldest is closed to admit the
//! next.
//!
//! A new connection gets some time for its first request before it can be closed: after a connection was closed to
//! admit a new one, the next one is accepted a little later ([`ConnectionPermit::pause`]).
use super::memory_budget::{ConnectionContext, MemoryBudget};
use super::service_context::ServiceContext;
use crate::clock::Clock;
use crate::coordinator::quota::{CallerKey, LimitPair};
use crate::core::{Exceeded, Limit};
use rustix::process::{Resource, getrlimit};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

/// File descriptors reserved for other purposes: the store, listeners, runtimes, and connections that are being closed.
const OTHER_FILES: u64 = 64;
/// The maximum number of connections whose calls are refused. File descriptors are reserved for them: without these, no
/// client would learn the reason, and liveness probes would fail.
const REFUSED: u64 = 64;
/// The time for the first request of a new connection during a flood of connections: a request arrives within a round
/// trip.
pub(crate) const FIRST_REQUEST_TIME: Duration = Duration::from_millis(250);
/// The retry delay that refused connections are given.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Admits connections.
pub(crate) struct ConnectionLimiter {
    budget: Arc<MemoryBudget>,
    context: Arc<ServiceContext>,
    clock: Arc<dyn Clock>,
    most: LimitPair,
    most_refused: usize,
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
}

/// The connections of one caller.
#[derive(Debug, Default)]
struct CallerConnections {
    connections: u64,
    /// The numbers of those that may not have made a request yet.
    silent: BTreeSet<u64>,
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
            return Ok(turn(allowed));
        }
        if let Some(allowed) = most.in_all.filter(|&allowed| self.connections >= allowed) {
            let oldest = self.oldest_silent(|inside| Some(*inside.silent.first_key_value()?.0));
            let refused = || exceeded(Limit::Connections, allowed, allowed, None);
            oldest.ok_or_else(refused)?.closing().cancel();
            return Ok(turn(allowed));
        }
        Ok(None)
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
}

/// The stream of a connection that the server can close.
pub(crate) struct AdmittedStream<S> {
    stream: S,
    permit: ConnectionPermit,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<S> AdmittedStream<S> {
    pub(crate) fn new(stream: S, permit: ConnectionPermit) -> Self {
        let closing = Box::pin(permit.connection.closing().clone().cancelled_owned());
        AdmittedStream { stream, permit, closing }
    }

    pub(crate) fn get_ref(&self) -> &S {
        &self.stream
    }

    /// An error if the connection must be closed; otherwise the task is woken when that happens.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.closing.as_mut().poll(cx) {
            Poll::Ready(()) => {
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "it was closed in favour of other connections"))
            }
            Poll::Pending => Ok(()),
        }
    }
}

impl<S> Connected for AdmittedStream<S> {
    type ConnectInfo = Arc<ConnectionContext>;

    fn connect_info(&self) -> Arc<ConnectionContext> {
        self.permit.connection.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AdmittedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AdmittedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::System;
    use crate::coordinator::quota::Limits;
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
        assert!(!first.permit.connection.closing().is_cancelled());
        let mut third = enter(OTHER);
        assert!(first.permit.connection.closing().is_cancelled() && !second.permit.connection.closing().is_cancelled());
        let (mut stream, _other) = tokio::io::duplex(1);
        let mut waiting = AdmittedStream::new(&mut stream, first.permit);
        let closed = waiting.read_u8().await.expect_err("it was closed");
        assert_eq!(closed.kind(), io::ErrorKind::ConnectionAborted);
        assert_eq!(third.read(&mut [0; 8]).await.expect("it is open"), 0);
    }

    #[tokio::test]
    async fn g7_after_a_connection_was_closed_for_a_new_one_the_next_is_accepted_later() {
        let limiter = limiter(100, 50);
        let permits: Vec<_> = (0..51).map(|_| limiter.enter(HOST)).collect();
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
