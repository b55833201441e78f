//! Serving one client, on standard input and output.
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

/// When the client closes its end, calls in flight have this long: who writes requests into a pipe wants the answers.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// Serves until the client hangs up.
///
/// # Errors
/// The client did not begin as MCP does.
pub(crate) async fn serve_stdio(server: &Arc<ExecServer>) -> io::Result<()> {
    let caller = Caller::connected(server);
    let (commands, number, gone) = (server.commands.clone(), caller.own().number, caller.own().gone.clone());
    let (read, write) = rmcp::transport::stdio_pipes();
    let hung_up = CancellationToken::new();
    let read = UntilEnd { read, end: hung_up.clone() };
    let serving = async {
        let running = match rmcp::serve_server(caller, (read, write)).await {
            Ok(running) => running,
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(io::Error::other(error)),
        };
        running.waiting().await.map(drop).map_err(io::Error::other)
    };
    let ending = async {
        hung_up.cancelled().await;
        for command in commands.of(number).into_iter().filter(|command| !command.idle.is_used()) {
            command.stop.cancel();
        }
        tokio::time::sleep(LAST_CALLS).await;
        gone.cancel();
        std::future::pending().await
    };
    tokio::select! {
        served = serving => served,
        never = ending => never,
    }
}

/// Tells when there is nothing more to read.
struct UntilEnd<R> {
    read: R,
    end: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilEnd<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.read).poll_read(cx, buffer));
        if read.is_err() || buffer.filled().len() == before {
            self.end.cancel();
        }
        Poll::Ready(read)
    }
}
