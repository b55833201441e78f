//! A connection to a worker without a listener: for the process itself, to check that its workers serve. No limits
//! apply to it, because a server that refuses other connections still works.
use super::admission::ConnectionLimiter;
use super::worker::Entrance;
use crate::clock::System;
use crate::coordinator::quota::CallerKey;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Makes connections to one worker. They do not count against the limits for clients.
#[derive(Clone)]
pub struct InProcessConnector {
    entrance: Entrance,
    limiter: Arc<ConnectionLimiter>,
}

impl InProcessConnector {
    pub(super) fn of(entrance: Entrance) -> Self {
        InProcessConnector { entrance, limiter: ConnectionLimiter::new(Arc::default(), Arc::new(System::new())) }
    }

    /// A new connection, which the worker serves like one of its Unix sockets.
    ///
    /// # Errors
    /// The system cannot open a socket.
    pub async fn connect(&self) -> io::Result<tokio::net::UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let permit = self.limiter.enter(CallerKey::Itself);
        self.entrance.unix(theirs, permit).await;
        tokio::net::UnixStream::from_std(ours)
    }
}
