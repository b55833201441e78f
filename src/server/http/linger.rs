//! A connection of HTTP/1 that is closed only after its client could read the last answer.
//!
//! The rest of a refused request may still arrive. Closing a connection with unread bytes resets it, and the answer may
//! be lost (RFC 9112, 9.6). So for a moment after the end, what arrives is read and discarded.
//!
//! A client may close its side after its request and wait for the answer. So the end of the client's side is ignored
//! while a request is being answered. Watches are the exception: they have no end of their own, so a watch ends when
//! its client closes its side.
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a client has to close its side.
const LINGER: Duration = Duration::from_secs(1);
/// The maximum number of bytes that are read in that time: many times what is in flight before the answer arrives.
const HEARD: usize = 1 << 20;
/// The maximum of one read in bytes.
const PART: usize = 4 << 10;

/// A stream that is shut down on both sides.
pub(super) struct Lingering<S> {
    stream: S,
    /// A watch is open and its request was read completely: the next byte belongs to another request.
    watches: Arc<AtomicBool>,
    /// That byte.
    next: Option<u8>,
    end: Option<End>,
}

/// Nothing more is written.
struct End {
    over: Pin<Box<Sleep>>,
    heard: usize,
}

impl<S> Lingering<S> {
    pub(super) fn new(stream: S, watches: Arc<AtomicBool>) -> Self {
        Lingering { stream, watches, next: None, end: None }
    }
}

impl<S: AsyncRead + Unpin> Lingering<S> {
    /// Fails if the client of a watch has closed its side.
    fn look_for_end(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.next.is_some() || !self.watches.load(Relaxed) {
            return Ok(());
        }
        let mut byte = [0];
        let mut buf = ReadBuf::new(&mut byte);
        if Pin::new(&mut self.stream).poll_read(cx, &mut buf)?.is_ready() {
            self.next = Some(*buf.filled().first().ok_or(io::ErrorKind::UnexpectedEof)?);
            // The task that waits for this byte was not woken.
            cx.waker().wake_by_ref();
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(next) = self.next.take_if(|_| buf.remaining() > 0) {
            buf.put_slice(&[next]);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.look_for_end(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Lingering { stream, end, .. } = self.get_mut();
        let mut stream = Pin::new(stream);
        let end = match end {
            Some(end) => end,
            None => {
                ready!(stream.as_mut().poll_shutdown(cx))?;
                end.insert(End { over: Box::pin(sleep(LINGER)), heard: 0 })
            }
        };
        let mut bytes = [0; PART];
        while end.heard < HEARD {
            let mut buf = ReadBuf::new(&mut bytes);
            match stream.as_mut().poll_read(cx, &mut buf) {
                // The client has closed its side, or the connection is broken: both are the end.
                Poll::Ready(Ok(())) if buf.filled().is_empty() => break,
                Poll::Ready(Err(_)) => break,
                Poll::Ready(Ok(())) => end.heard += buf.filled().len(),
                Poll::Pending => {
                    ready!(end.over.as_mut().poll(cx));
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_waits_for_the_client_and_takes_what_it_still_sends() {
        let (mut client, server) = duplex(16);
        let mut server = Lingering::new(server, Arc::default());
        let closing = tokio::spawn(async move { server.shutdown().await });
        assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0, "the client sees the end at once");
        client.write_all(&[0; 10_000]).await.unwrap();
        assert!(!closing.is_finished());
        drop(client);
        closing.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_waits_for_a_moment_only() {
        let (_client, server) = duplex(16);
        let began = Instant::now();
        Lingering::new(server, Arc::default()).shutdown().await.unwrap();
        assert_eq!(began.elapsed().as_millis(), LINGER.as_millis());
    }

    #[tokio::test]
    async fn the_end_of_a_client_is_seen_while_it_watches_only() {
        let watches = Arc::new(AtomicBool::new(false));
        let (mut client, server) = duplex(16);
        let mut server = Lingering::new(server, watches.clone());
        client.write_all(b"next").await.unwrap();
        watches.store(true, Relaxed);
        server.flush().await.unwrap();
        let mut next = [0; 4];
        server.read_exact(&mut next).await.unwrap();
        assert_eq!(&next, b"next");
        client.shutdown().await.unwrap();
        watches.store(false, Relaxed);
        server.flush().await.unwrap();
        watches.store(true, Relaxed);
        assert_eq!(server.flush().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
