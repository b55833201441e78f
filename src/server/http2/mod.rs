//! Bounds what a connection of HTTP/2 makes our HTTP/2 library (h2) hold and do, from outside: [`Guarded`] reads the
//! headers of frames in front of it, and notes behind it what is on the wire.
//!
//! 1. A turn of a connection has a bounded amount of work ([`incoming`]); then other tasks run.
//! 2. A client that does what no honest client does is sent GOAWAY by h2.
//! 3. An answer counts in the memory of its connection until its last byte is on the wire ([`outgoing`]): h2 keeps a
//!    refusal, which has no body, after the service has forgotten it.
//! 4. A client that does not read is not read from, and is disconnected after [`STUCK`].
mod allowance;
mod frame;
mod incoming;
mod outgoing;
mod streams;
mod unread;

pub(crate) use unread::{LiveCalls, Unread};

use bytes::{Buf, BytesMut};
use frame::HEADER;
use incoming::{Incoming, Next};
use outgoing::Outgoing;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use streams::Streams;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop::{has_budget_remaining, poll_proceed};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

/// A connection on which nothing could be written for this long is closed. Shorter than the ping of a silent connection
/// and its answer, 50 s.
const STUCK: Duration = Duration::from_secs(30);
/// The unread answers of a client that does not read from which on the server does not read its requests.
const STUCK_ANSWERS: usize = 32;
/// More than the budget of a task of tokio, which then yields.
const WHOLE_BUDGET: usize = 256;

/// A connection of HTTP/2 whose frames are bounded.
pub(super) struct Guarded<S> {
    stream: S,
    incoming: Incoming,
    outgoing: Outgoing,
    streams: Streams,
    /// Pings that the client has not acknowledged.
    pings: u32,
    /// Bytes that were read and that h2 does not have yet; of these, how many it may have.
    rest: BytesMut,
    judged: usize,
    turn: Turn,
    /// Nothing can be written at present; the connection is closed when it completes.
    stuck: Option<Pin<Box<Sleep>>>,
    /// Whether reading waits until something was written.
    waits_for_write: bool,
    unread: Unread,
}

/// The state of the connection's turn.
#[derive(Clone, Copy, PartialEq)]
enum Turn {
    Going,
    /// Other tasks must run first.
    Over,
    /// The task was told to let them run.
    Yielded,
}

impl<S> Guarded<S> {
    /// `unread`: counts the answers that the client has not read.
    pub(super) fn new(stream: S, unread: Unread) -> Self {
        Guarded {
            stream,
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            streams: Streams::default(),
            pings: 0,
            rest: BytesMut::new(),
            judged: 0,
            turn: Turn::Going,
            stuck: None,
            waits_for_write: false,
            unread,
        }
    }

    /// Lets other tasks run if the turn is over: h2 and hyper poll again at once after a mere `Pending`, so the task's
    /// budget is used up. Ready in the next turn.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.turn {
            Turn::Going => Poll::Ready(()),
            Turn::Over => {
                self.turn = Turn::Yielded;
                for _ in 0..WHOLE_BUDGET {
                    ready!(poll_proceed(cx)).made_progress();
                }
                // This is no task of tokio, and has no budget.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Turn::Yielded => {
                ready!(poll_proceed(cx)).made_progress();
                self.turn = Turn::Going;
                self.incoming.begin_turn();
                Poll::Ready(())
            }
        }
    }

    /// Notes the result of a write or a flush. An error if the client has read nothing for too long.
    fn note_progress<T>(&mut self, cx: &mut Context<'_>, polled: &Poll<io::Result<T>>) -> io::Result<()> {
        if polled.is_ready() {
            if self.stuck.take().is_some() {
                self.unread.set_stuck(false);
            }
            if std::mem::take(&mut self.waits_for_write) {
                cx.waker().wake_by_ref();
            }
        } else if has_budget_remaining() {
            let stuck = self.stuck.get_or_insert_with(|| {
                self.unread.set_stuck(true);
                Box::pin(sleep(STUCK))
            });
            if stuck.as_mut().poll(cx).is_ready() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read"));
            }
        }
        Ok(())
    }

    fn note_written(&mut self, bytes: &[u8]) {
        self.outgoing.note(bytes, &mut self.streams, &mut self.pings);
    }
}

impl<S: Connected> Connected for Guarded<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> S::ConnectInfo {
        self.stream.connect_info()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let unread = this.unread.count(&this.streams);
        if this.stuck.is_some() && unread >= STUCK_ANSWERS {
            // The timer, or the next write, wakes this task.
            this.waits_for_write = true;
            return Poll::Pending;
        }
        loop {
            if this.judged > 0 {
                let ready = this.judged.min(buf.remaining());
                buf.put_slice(&this.rest[..ready]);
                this.rest.advance(ready);
                this.judged -= ready;
                return Poll::Ready(Ok(()));
            }
            ready!(this.poll_turn(cx));
            let next;
            (this.judged, next) = this.incoming.judge(&mut this.rest, &mut this.streams, &mut this.pings);
            if next == Next::Yield {
                this.turn = Turn::Over;
            }
            if this.judged > 0 || next == Next::Yield {
                continue;
            }
            // What is left is less than the header of a frame.
            let before = buf.filled().len();
            if buf.remaining() <= this.rest.len() {
                let mut more = [0; HEADER];
                let mut more = ReadBuf::new(&mut more);
                ready!(Pin::new(&mut this.stream).poll_read(cx, &mut more))?;
                if more.filled().is_empty() {
                    return Poll::Ready(Ok(()));
                }
                this.rest.extend_from_slice(more.filled());
                continue;
            }
            buf.put_slice(&this.rest);
            let begun = buf.filled().len();
            let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
            if !matches!(polled, Poll::Ready(Ok(()))) || buf.filled().len() == begun {
                buf.set_filled(before);
                if polled.is_pending() {
                    this.incoming.begin_turn();
                }
                return polled;
            }
            this.rest.clear();
            let read = &mut buf.filled_mut()[before..];
            let (judged, next) = this.incoming.judge(read, &mut this.streams, &mut this.pings);
            this.rest.extend_from_slice(&read[judged..]);
            buf.set_filled(before + judged);
            if next == Next::Yield {
                this.turn = Turn::Over;
            }
            if judged > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.note_progress(cx, &polled)?;
        if let Poll::Ready(Ok(written)) = &polled {
            this.note_written(&bytes[..*written]);
            this.unread.count(&this.streams);
        }
        polled
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(cx, bytes);
        this.note_progress(cx, &polled)?;
        if let Poll::Ready(Ok(written)) = &polled {
            let mut written = *written;
            for slice in bytes {
                let part = slice.len().min(written);
                this.note_written(&slice[..part]);
                written -= part;
            }
            this.unread.count(&this.streams);
        }
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_flush(cx);
        // A flush of TCP is always ready, and proves nothing.
        if polled.is_pending() {
            this.note_progress(cx, &polled)?;
        }
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
