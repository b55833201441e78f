//! How many connections there are at once, and who gives way when there is room for no more.
//!
//! Whoever connects and never asks for anything costs a file descriptor and some memory. Such a connection is closed, the
//! oldest first, when it is in the way of a new one. Those that have made a request stay; when there is none but these,
//! it is the new one that is closed.
use crate::service::{Guest, Room};
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

/// Connections at most, where the system allows as many files: about 1 GiB when each is idle.
const MOST: usize = 65_536;
/// File descriptors that are not for connections: the store, listeners, runtimes, and connections that are on their way
/// out.
const OTHER_FILES: u64 = 64;

/// Lets connections in.
#[derive(Debug)]
pub(super) struct Door {
    room: Arc<Room>,
    most: usize,
    entered: AtomicU64,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    connections: usize,
    /// Those that may not have made a request yet, in the order of their coming.
    silent: BTreeMap<u64, Arc<Guest>>,
}

/// A place inside. Dropped, it is free.
#[derive(Debug)]
pub(super) struct Place {
    door: Arc<Door>,
    number: u64,
    guest: Arc<Guest>,
}

impl Door {
    /// A door for as many as the process may have files.
    pub(super) fn new(room: Arc<Room>) -> Arc<Self> {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        // A process that may have very few, such as one that a shell with `ulimit -n 64` started, still serves.
        let most = usize::try_from(files - OTHER_FILES.min(files / 4)).unwrap_or(MOST).clamp(1, MOST);
        Self::for_at_most(most, room)
    }

    fn for_at_most(most: usize, room: Arc<Room>) -> Arc<Self> {
        Arc::new(Door { room, most, entered: AtomicU64::default(), inside: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("no panic while locked")
    }

    /// A place for a connection; `None`: there is none, and nobody who has to give way.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Place> {
        let mut inside = self.lock();
        if inside.connections >= self.most {
            // Who has asked in the meantime is looked at once, and never again.
            let oldest = std::iter::from_fn(|| inside.silent.pop_first()).find(|(_, guest)| !guest.has_asked());
            oldest?.1.closing().cancel();
        }
        inside.connections += 1;
        let (number, guest) = (self.entered.fetch_add(1, Relaxed), self.room.guest());
        inside.silent.insert(number, guest.clone());
        Some(Place { door: self.clone(), number, guest })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inside = self.door.lock();
        inside.connections -= 1;
        inside.silent.remove(&self.number);
    }
}

impl Place {
    /// Cancelled when the connection has to go.
    pub(super) fn closing(&self) -> CancellationToken {
        self.guest.closing().clone()
    }
}

/// A connection that can be closed from outside.
pub(super) struct Connection<S> {
    stream: S,
    place: Place,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<S> Connection<S> {
    pub(super) fn new(stream: S, place: Place) -> Self {
        let closing = Box::pin(place.guest.closing().clone().cancelled_owned());
        Connection { stream, place, closing }
    }

    /// An error when it is to be closed; else the task is woken when it is.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.closing.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "it has to give way to others")),
            Poll::Pending => Ok(()),
        }
    }
}

impl<S> Connected for Connection<S> {
    type ConnectInfo = Arc<Guest>;

    fn connect_info(&self) -> Arc<Guest> {
        self.place.guest.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
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
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn g7_the_oldest_silent_connection_gives_way_to_a_new_one() {
        let door = Door::for_at_most(2, Arc::default());
        let enter = || door.enter().map(|place| Connection::new(tokio::io::empty(), place));
        let (first, second) = (enter().expect("there is room"), enter().expect("there is room"));
        assert!(!first.place.guest.closing().is_cancelled());
        let mut third = enter().expect("the first gives way");
        assert!(first.place.guest.closing().is_cancelled() && !second.place.guest.closing().is_cancelled());
        let (mut stream, _other) = tokio::io::duplex(1);
        let mut waiting = Connection::new(&mut stream, first.place);
        let closed = waiting.read_u8().await.expect_err("it was closed");
        assert_eq!(closed.kind(), io::ErrorKind::ConnectionAborted);
        assert_eq!(third.read_u8().await.expect_err("nothing comes").kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn who_has_asked_stays_and_who_leaves_makes_room() {
        let door = Door::for_at_most(1, Arc::default());
        let place = door.enter().expect("there is room");
        place.guest.asks();
        assert!(door.enter().is_none() && !place.guest.closing().is_cancelled());
        drop(place);
        assert!(door.enter().is_some());
        assert_eq!(door.lock().connections, 0);
    }
}
