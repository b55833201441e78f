//! The simulated network, as the server and the client library use it.
use crate::oracle::Oracle;
use hyper_util::rt::TokioIo;
use pausewatch::client::{Client, Config};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;
use turmoil::net::{TcpListener, TcpStream};

pub(crate) const SERVER: &str = "server";
const PORT: u16 = 7420;

/// A client on `host`; called on that host.
pub(crate) fn client(host: &str, oracle: &Oracle, deadline: Duration) -> Client {
    let connect = {
        let (host, oracle) = (host.to_owned(), oracle.clone());
        move |_| {
            let (host, oracle) = (host.clone(), oracle.clone());
            async move {
                let stream = TcpStream::connect((SERVER, PORT)).await?;
                Ok::<_, io::Error>(TokioIo::new(Opened { stream, host, oracle, has_lost: false }))
            }
        }
    };
    Client::with_connector(tower::service_fn(connect), &Config { deadline, ..Config::default() })
}

/// A connection of the client. Once data that it sent is lost, it is dead in both directions: the simulated network has
/// no retransmission, and none of TCP's acknowledgements, without which a real peer could not continue to send.
struct Opened {
    stream: TcpStream,
    host: String,
    oracle: Oracle,
    has_lost: bool,
}

impl AsyncRead for Opened {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.has_lost {
            // The timers of its user wake it.
            true => Poll::Pending,
            false => Pin::new(&mut self.stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Opened {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.has_lost |= written.is_ready() && !self.oracle.can_send(&self.host);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The incoming connections of the server's host.
pub(crate) async fn accept() -> io::Result<impl Stream<Item = io::Result<Accepted>>> {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    let (to, connections) = tokio::sync::mpsc::channel(16);
    tokio::spawn(async move {
        loop {
            let accepted = listener.accept().await.map(|(stream, _)| Accepted(stream));
            if to.send(accepted).await.is_err() {
                return;
            }
        }
    });
    Ok(ReceiverStream::new(connections))
}

/// A connection as tonic accepts it.
pub(crate) struct Accepted(TcpStream);

impl Connected for Accepted {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Accepted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
