//! A process that this one did not start, such as its parent, and the end of it.
//!
//! 1. On Linux it is a file descriptor: a process that gets the same id later is not mistaken for it. Elsewhere it is an id.
use rustix::process::{Pid, getppid};
use std::io;

/// The interval between two checks where the system has no descriptors of processes.
#[cfg(not(target_os = "linux"))]
const POLL: std::time::Duration = std::time::Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct OtherProcess {
    pub(crate) pid: Pid,
    #[cfg(target_os = "linux")]
    descriptor: std::os::fd::OwnedFd,
}

impl OtherProcess {
    /// # Errors
    /// The process does not exist.
    pub(crate) fn of(pid: Pid) -> io::Result<Self> {
        Ok(Self {
            pid,
            #[cfg(target_os = "linux")]
            descriptor: rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?,
        })
    }

    /// The parent of this process; `None`: it is outside our namespace of process ids, or has ended.
    pub(crate) fn parent() -> Option<Self> {
        let parent = Self::of(getppid()?).ok()?;
        // Otherwise it has ended, and its id may be that of another process.
        (getppid() == Some(parent.pid)).then_some(parent)
    }

    /// Waits for its end; on Linux, in a blocking thread of the tokio runtime, which waits on if this is cancelled.
    pub(crate) async fn ended(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            let descriptor = self.descriptor.try_clone()?;
            let waiting = tokio::task::spawn_blocking(move || while !is_readable(&descriptor, None) {});
            waiting.await.map_err(io::Error::other)
        }
        #[cfg(not(target_os = "linux"))]
        {
            while !self.has_ended() {
                tokio::time::sleep(POLL).await;
            }
            Ok(())
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            is_readable(&self.descriptor, Some(rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))
        }
        #[cfg(not(target_os = "linux"))]
        {
            rustix::process::test_kill_process(self.pid) == Err(rustix::io::Errno::SRCH)
        }
    }
}

/// Whether the process of the descriptor has ended, or ends within this time.
#[cfg(target_os = "linux")]
fn is_readable(descriptor: &std::os::fd::OwnedFd, timeout: Option<rustix::event::Timespec>) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    poll(&mut [PollFd::new(descriptor, PollFlags::IN)], timeout.as_ref()).is_ok_and(|ready| ready > 0)
}
