//! A way to a worker that no listener is on: for the process itself, to see whether its workers serve. No limit holds there: a
//! server that refuses others is alive.
use super::admission::ConnectionLimiter;
use super::worker::Entrance;
use crate::clock::System;
use crate::coordinator::quota::CallerKey;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Makes connections to one worker. They take no place from those who come from outside.
#[derive(Clone)]
pub struct InProcessConnector {
    entrance: Entrance,
    limiter: Arc<ConnectionLimiter>,
}

impl InProcessConnector {
    pub(super) fn of(entrance: Entrance) -> Self {
        InProcessConnector { entrance, limiter: ConnectionLimiter::new(Arc::default(), Arc::new(System::new())) }
    }

    /// A new connection, which the worker serves as it serves those of its Unix sockets.
    ///
    /// # Errors
    /// The system gives no more sockets.
    pub async fn connect(&self) -> io::Result<tokio::net::UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let permit = self.limiter.enter(CallerKey::Itself);
        self.entrance.unix(theirs, permit).await;
        tokio::net::UnixStream::from_std(ours)
    }
}
