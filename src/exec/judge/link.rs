//! The exec server's end of a supervisor's socket.
use super::{
    message::{Report, Verdict},
    packet,
};
use rustix::io::{Errno, ioctl_fionbio};
use serde::de::DeserializeOwned;
use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};
use tokio::{io::Interest, net::UnixStream};

/// A connection to the supervisor of one command. It has the type of a stream, because tokio has none for packets
/// without unsafe code; only its readiness is used.
#[derive(Debug)]
pub(crate) struct Link(UnixStream);

/// Both ends of a new connection: ours as a blocking socket, and the supervisor's, which becomes its standard input.
///
/// `stdin`: the command's standard input.
pub(crate) fn connect(stdin: impl AsFd) -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = packet::pair()?;
    packet::send(&ours, &(), &[stdin.as_fd().as_raw_fd()])?;
    Ok((ours, theirs))
}

impl Link {
    /// Needs a tokio runtime.
    pub(crate) fn new(ours: OwnedFd) -> io::Result<Self> {
        ioctl_fionbio(&ours, true)?;
        Ok(Self(UnixStream::from_std(ours.into())?))
    }

    /// The next report; `None`: the supervisor has ended, or has sent a message that this version does not know.
    ///
    /// # Cancel safety
    /// If the future is dropped, no report is lost.
    pub(crate) async fn report(&self) -> Option<Report> {
        self.receive().await
    }

    pub(super) async fn receive<T: DeserializeOwned>(&self) -> Option<T> {
        let received = self.0.async_io(Interest::READABLE, || packet::receive(&self.0)).await;
        received.ok().flatten().map(|(message, _)| message)
    }

    /// The next report, if one has come.
    pub(crate) fn report_now(&self) -> Option<Report> {
        packet::receive(&self.0).ok().flatten().map(|(report, _)| report)
    }

    /// Answers a question. If the supervisor has ended, nobody needs it.
    pub(crate) async fn answer(&self, verdict: &Verdict) {
        let sent = self.0.async_io(Interest::WRITABLE, || packet::send(&self.0, verdict, &[])).await;
        if let Err(error) = sent
            && Errno::from_io_error(&error) != Some(Errno::PIPE)
        {
            tracing::warn!(%error, "answer the supervisor of a command");
        }
    }
}
