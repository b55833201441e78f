//! The simulated network, as the server and the client library take it.
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

/// A client on the host that this is called on.
pub(crate) fn client(deadline: Duration) -> Client {
    let connect = |_| async { TcpStream::connect((SERVER, PORT)).await.map(TokioIo::new) };
    Client::with_connector(tower::service_fn(connect), &Config { deadline, ..Config::default() })
}

/// The connections that the server's host is asked for.
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

/// A connection, as tonic takes it.
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
