//! A connection whose first bytes were read to detect its protocol.
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// The first bytes of every HTTP/2 connection (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection that returns the bytes that were read from it again.
pub(crate) struct Rewound<S> {
    stream: S,
    first: [u8; PREFACE.len()],
    /// How many of the first bytes were returned again, and how many there are.
    again: usize,
    read: usize,
}

/// Reads the start of a connection. Returns whether it is HTTP/2.
pub(crate) async fn begins_with_preface<S: AsyncRead + Unpin>(mut stream: S) -> io::Result<(bool, Rewound<S>)> {
    let (mut first, mut read) = ([0; PREFACE.len()], 0);
    while read < PREFACE.len() && first[..read] == PREFACE[..read] {
        match stream.read(&mut first[read..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => read += more,
        }
    }
    Ok((first == *PREFACE, Rewound { stream, first, again: 0, read }))
}

impl<S> Rewound<S> {
    /// A connection of which nothing was read.
    pub(crate) fn unread(stream: S) -> Self {
        Rewound { stream, first: [0; PREFACE.len()], again: 0, read: 0 }
    }

    pub(super) fn stream(&self) -> &S {
        &self.stream
    }
}

impl<S: Connected> Connected for Rewound<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> S::ConnectInfo {
        self.stream.connect_info()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.again < self.read {
            let end = self.read.min(self.again + buf.remaining());
            buf.put_slice(&self.first[self.again..end]);
            self.again = end;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
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
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sent(bytes: &[u8]) -> io::Result<(bool, Vec<u8>)> {
        let (client, server) = tokio::io::duplex(1);
        let bytes = bytes.to_owned();
        tokio::spawn(async move {
            let mut client = client;
            let _ = tokio::io::AsyncWriteExt::write_all(&mut client, &bytes).await;
        });
        let (is_http2, mut rewound) = begins_with_preface(server).await?;
        let mut all = Vec::new();
        rewound.read_to_end(&mut all).await?;
        Ok((is_http2, all))
    }

    #[tokio::test]
    async fn the_preface_is_recognized_and_nothing_is_lost() {
        let http2 = [PREFACE, &b"frames"[..]].concat();
        assert_eq!(sent(&http2).await.unwrap(), (true, http2));
        for other in [&b"POST /x HTTP/1.1\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r!", b"G", &[0xff; 50]] {
            assert_eq!(sent(other).await.unwrap(), (false, other.to_vec()));
        }
        for cut_off in [&b""[..], b"P", &PREFACE[..23]] {
            assert!(sent(cut_off).await.is_err(), "{cut_off:?}");
        }
    }
}
