//! The stream of an admitted connection: it ends when the server closes the connection for others, and notes progress.
use super::connection_limit::ConnectionPermit;
use super::memory_budget::ConnectionContext;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::Connected;

/// A write of this many bytes shows that the client reads an answer. The answers to control frames are smaller.
const PROGRESS: usize = 4 << 10;

/// The stream of a connection that the server can close.
pub(crate) struct AdmittedStream<S> {
    stream: S,
    permit: ConnectionPermit,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<S> AdmittedStream<S> {
    pub(crate) fn new(stream: S, permit: ConnectionPermit) -> Self {
        let closing = Box::pin(permit.connection().closing().clone().cancelled_owned());
        AdmittedStream { stream, permit, closing }
    }

    pub(crate) fn get_ref(&self) -> &S {
        &self.stream
    }

    #[cfg(test)]
    pub(super) fn connection(&self) -> &Arc<ConnectionContext> {
        self.permit.connection()
    }

    #[cfg(test)]
    pub(super) fn into_permit(self) -> ConnectionPermit {
        self.permit
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

impl<S> AdmittedStream<S> {
    fn note_progress(&self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(bytes)) if *bytes >= PROGRESS) {
            self.permit.connection().progressed();
        }
    }
}

impl<S> Connected for AdmittedStream<S> {
    type ConnectInfo = Arc<ConnectionContext>;

    fn connect_info(&self) -> Arc<ConnectionContext> {
        self.permit.connection().clone()
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
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note_progress(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.note_progress(&written);
        written
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
