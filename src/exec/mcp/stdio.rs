//! Serves one client on standard input and output.
use super::{Caller, ExecServer};
use rmcp::service::ServerInitializeError;
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

/// The time for calls in flight after the end of standard input: a script that pipes requests in wants the responses.
const CALLS_GRACE: Duration = Duration::from_secs(1);

/// Serves until standard input ends.
///
/// # Errors
/// The client's first message does not start an MCP session.
pub(crate) async fn serve_stdio(server: &Arc<ExecServer>) -> io::Result<()> {
    let caller = Caller::over_stdio(server);
    let (commands, owner, closed) = (server.commands.clone(), caller.own().id, caller.own().closed.clone());
    let (read, write) = rmcp::transport::stdio_pipes();
    let end_of_input = CancellationToken::new();
    let read = NotifyAtEnd { read, end: end_of_input.clone() };
    let serving = async {
        let running = match rmcp::serve_server(caller, (read, write)).await {
            Ok(running) => running,
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(io::Error::other(error)),
        };
        running.waiting().await.map(drop).map_err(io::Error::other)
    };
    let ending = async {
        end_of_input.cancelled().await;
        for command in commands.list(owner).into_iter().filter(|command| !command.idle.is_in_use()) {
            command.stop.cancel();
        }
        tokio::time::sleep(CALLS_GRACE).await;
        closed.cancel();
        std::future::pending().await
    };
    tokio::select! {
        served = serving => served,
        never = ending => never,
    }
}

/// Cancels `end` when the reader has ended or failed.
struct NotifyAtEnd<R> {
    read: R,
    end: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for NotifyAtEnd<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.read).poll_read(cx, buffer));
        if read.is_err() || buffer.filled().len() == before {
            self.end.cancel();
        }
        Poll::Ready(read)
    }
}
