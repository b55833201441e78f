//! How many connections there are at once, and who gives way when there is room for no more.
//!
//! Whoever connects and never asks for anything costs a file descriptor and some memory. Such a connection is closed, the
//! oldest first, when it is in the way of a new one: of the same caller if that has its share, of anybody if the server is
//! full. Those that have made a request stay. When there is none but these, the new one is let in only to be told why
//! its calls are refused, and is the next to give way; there are a few places for such.
//!
//! Who comes in has a moment to speak before it is its turn to give way: where somebody had to, the next is let in a
//! little later ([`ConnectionPermit::pause`]).
use super::context::ServiceContext;
use super::memory_budget::{ConnectionContext, MemoryBudget};
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

/// File descriptors that are not for connections: the store, listeners, runtimes, and connections that are on their way
/// out.
const OTHER_FILES: u64 = 64;
/// Connections that are told why they are refused, at once.
const REFUSED: usize = 64;
/// What a newcomer has to speak, while others crowd in: a request is there within a round trip.
pub(crate) const TO_SPEAK: Duration = Duration::from_millis(250);
/// When one that was refused may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Lets connections in.
pub(crate) struct ConnectionLimiter {
    room: Arc<MemoryBudget>,
    shop: Arc<ServiceContext>,
    clock: Arc<dyn Clock>,
    most: LimitPair,
    entered: AtomicU64,
    inside: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    connections: u64,
    /// Those that may not have made a request yet, in the order of their coming.
    silent: BTreeMap<u64, Arc<ConnectionContext>>,
    of: HashMap<CallerKey, CallerConnections>,
    /// Those that are only told why, in the order of their coming.
    refused: BTreeMap<u64, Arc<ConnectionContext>>,
}

/// The connections of one caller.
#[derive(Debug, Default)]
struct CallerConnections {
    connections: u64,
    /// Their numbers among the silent ones.
    silent: BTreeSet<u64>,
}

/// A place inside. Dropped, it is free.
pub(crate) struct ConnectionPermit {
    door: Arc<ConnectionLimiter>,
    number: u64,
    guest: Arc<ConnectionContext>,
    pause: Option<Duration>,
}

impl ConnectionLimiter {
    /// A door for so many as the limits say, where the process may have as many files.
    pub(crate) fn new(shop: Arc<ServiceContext>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let most = shop.limits.connections;
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        // A process that may have very few, such as one that a shell with `ulimit -n 64` started, still serves.
        let places = (files - OTHER_FILES.min(files / 4)).max(1);
        let in_all = most.in_all.unwrap_or(u64::MAX).min(places);
        // A caller that may have half of what was meant has half of what there is.
        let fits =
            |own: u64| if most.in_all.is_some_and(|most| most > places) { own.min(in_all / 2).max(1) } else { own };
        let most = LimitPair { in_all: Some(in_all), per_caller: most.per_caller.map(fits) };
        Arc::new(ConnectionLimiter {
            room: Arc::default(),
            shop,
            clock,
            most,
            entered: AtomicU64::default(),
            inside: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.inside.lock().expect("no panic while locked")
    }

    /// Open connections.
    pub(crate) fn connections(&self) -> u64 {
        self.lock().connections
    }

    /// A place for a connection of this caller.
    pub(crate) fn enter(self: &Arc<Self>, key: CallerKey) -> ConnectionPermit {
        self.shop.metrics.connections.add_one();
        let account = self.shop.accounts.of(key.clone(), self.clock.awake());
        let number = self.entered.fetch_add(1, Relaxed);
        let mut inside = self.lock();
        let (pause, refused) = match inside.make_room(self.most, &key) {
            Ok(pause) => (pause, None),
            Err(exceeded) => (None, Some(exceeded)),
        };
        let guest = self.room.guest(account, refused);
        match guest.refused() {
            None => {
                inside.connections += 1;
                inside.silent.insert(number, guest.clone());
                let own = inside.of.entry(key).or_default();
                own.connections += 1;
                own.silent.insert(number);
            }
            Some(exceeded) => {
                self.shop.metrics.refuse(exceeded.limit);
                inside.refused.insert(number, guest.clone());
                if inside.refused.len() > REFUSED
                    && let Some((_, oldest)) = inside.refused.pop_first()
                {
                    oldest.closing().cancel();
                }
            }
        }
        ConnectionPermit { door: self.clone(), number, guest, pause }
    }

    /// Has all go who have not asked for anything, and waits no longer for requests that have not come whole.
    pub(crate) fn close_up(&self) {
        self.room.wait_no_longer();
        let inside = self.lock();
        let silent = inside.silent.values().filter(|guest| !guest.has_asked());
        silent.chain(inside.refused.values()).for_each(|guest| guest.closing().cancel());
    }
}

impl Connections {
    /// Has a silent connection give way if there is no place for one more. Returns how long the next had best wait then.
    fn make_room(&mut self, most: LimitPair, key: &CallerKey) -> Result<Option<Duration>, Exceeded> {
        let turn = |places: u64| Some(TO_SPEAK / u32::try_from(places).unwrap_or(u32::MAX).max(1));
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

    /// The first that `next` names and that has not asked for anything. Who has is looked at once, and never again.
    fn oldest_silent(&mut self, next: impl Fn(&mut Connections) -> Option<u64>) -> Option<Arc<ConnectionContext>> {
        loop {
            let number = next(self)?;
            let guest = self.silent.remove(&number);
            if let Some(own) = guest.as_ref().and_then(|guest| self.of.get_mut(guest.account().key())) {
                own.silent.remove(&number);
            }
            if guest.as_ref().is_some_and(|guest| !guest.has_asked()) {
                return guest;
            }
        }
    }
}

fn exceeded(limit: Limit, was: u64, allowed: u64, caller: Option<Box<str>>) -> Exceeded {
    Exceeded { limit, was, allowed, caller, retry_after: RETRY_AFTER }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut inside = self.door.lock();
        if self.guest.refused().is_some() {
            inside.refused.remove(&self.number);
            return;
        }
        inside.connections -= 1;
        inside.silent.remove(&self.number);
        let key = self.guest.account().key();
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
    /// Somebody had to give way: the next had best be let in only after this.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.pause
    }

    /// Cancelled when the connection has to go.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.guest.closing().clone()
    }
}

/// The stream of a connection that the server can close.
pub(crate) struct AdmittedStream<S> {
    stream: S,
    place: ConnectionPermit,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<S> AdmittedStream<S> {
    pub(crate) fn new(stream: S, place: ConnectionPermit) -> Self {
        let closing = Box::pin(place.guest.closing().clone().cancelled_owned());
        AdmittedStream { stream, place, closing }
    }

    /// An error when it is to be closed; else the task is woken when it is.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.closing.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "it has to give way to others")),
            Poll::Pending => Ok(()),
        }
    }
}

impl<S> Connected for AdmittedStream<S> {
    type ConnectInfo = Arc<ConnectionContext>;

    fn connect_info(&self) -> Arc<ConnectionContext> {
        self.place.guest.clone()
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

    fn door(in_all: u64, per_caller: u64) -> Arc<ConnectionLimiter> {
        let connections = LimitPair { in_all: Some(in_all), per_caller: Some(per_caller) };
        let limits = Limits { connections, ..Limits::default() };
        let shop = ServiceContext { limits, ..ServiceContext::default() };
        ConnectionLimiter::new(Arc::new(shop), Arc::new(System::new()))
    }

    fn limit(place: &ConnectionPermit) -> Option<Limit> {
        place.guest.refused().map(|refused| refused.limit)
    }

    #[tokio::test]
    async fn g7_the_oldest_silent_connection_gives_way_to_a_new_one() {
        let door = door(2, 2);
        let enter = |key| AdmittedStream::new(tokio::io::empty(), door.enter(key));
        let (first, second) = (enter(HOST), enter(OTHER));
        assert!(!first.place.guest.closing().is_cancelled());
        let mut third = enter(OTHER);
        assert!(first.place.guest.closing().is_cancelled() && !second.place.guest.closing().is_cancelled());
        let (mut stream, _other) = tokio::io::duplex(1);
        let mut waiting = AdmittedStream::new(&mut stream, first.place);
        let closed = waiting.read_u8().await.expect_err("it was closed");
        assert_eq!(closed.kind(), io::ErrorKind::ConnectionAborted);
        assert_eq!(third.read(&mut [0; 8]).await.expect("it is open"), 0);
    }

    #[tokio::test]
    async fn g7_where_somebody_has_to_give_way_the_next_comes_a_little_later() {
        let door = door(100, 50);
        let places: Vec<_> = (0..51).map(|_| door.enter(HOST)).collect();
        let pauses: Vec<_> = places.iter().filter_map(ConnectionPermit::pause).collect();
        assert_eq!(
            (pauses[..].len(), pauses[0] * 50),
            (1, TO_SPEAK),
            "each has the time to speak until it is its turn"
        );
    }

    #[tokio::test]
    async fn who_has_asked_stays_and_who_leaves_makes_room() {
        let door = door(1, 1);
        let place = door.enter(HOST);
        place.guest.asks();
        assert_eq!(limit(&door.enter(OTHER)), Some(Limit::Connections));
        assert!(!place.guest.closing().is_cancelled());
        drop(place);
        assert_eq!(limit(&door.enter(OTHER)), None);
        assert_eq!(door.connections(), 0);
        assert!(door.lock().of.is_empty() && door.lock().refused.is_empty());
    }

    #[tokio::test]
    async fn g7_a_caller_with_its_share_of_connections_is_in_nobodys_way() {
        let door = door(4, 2);
        let of_other = door.enter(OTHER);
        let own: Vec<_> = (0..3).map(|_| door.enter(HOST)).collect();
        assert!(own[0].guest.closing().is_cancelled() && own.iter().all(|place| limit(place).is_none()));
        drop(own);
        let own = [door.enter(HOST), door.enter(HOST)];
        own.iter().for_each(|place| place.guest.asks());
        let refused: Vec<_> = (0..=REFUSED).map(|_| door.enter(HOST)).collect();
        assert!(refused.iter().all(|place| limit(place) == Some(Limit::ConnectionsPerCaller)));
        assert!(refused[0].guest.closing().is_cancelled() && !refused[1].guest.closing().is_cancelled());
        assert!(limit(&door.enter(OTHER)).is_none() && !of_other.guest.closing().is_cancelled());
        assert_eq!(door.shop.metrics.refused(Limit::ConnectionsPerCaller), REFUSED as u64 + 1);
    }
}
