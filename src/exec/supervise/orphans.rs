//! The orphans of a container: a process whose parent ends becomes a child of process 1, which must read its exit status. Until
//! then it remains as a zombie, and zombies use up the limit of processes.
use nix::{
    sys::wait::{Id, WaitPidFlag, waitid},
    unistd::Pid,
};
use rustix::process;
use tokio::{
    process::Child,
    signal::unix::{SignalKind, signal},
};

/// If this is process 1: reads, from now on, the exit status of every child except `command`, which its owner waits for. There
/// must be no other children of our own. Needs a tokio runtime.
pub(super) fn reap_beside(command: &Child) {
    let command = command.id().map(|id| Pid::from_raw(id.cast_signed()));
    if !process::getpid().is_init() {
        return;
    }
    // A failure is harmless: the orphans remain until this process ends, and with it the container.
    let Ok(mut ended) = signal(SignalKind::child()) else { return };
    tokio::spawn(async move {
        loop {
            // If the command has ended, this process ends soon too, and the kernel reads the rest.
            while let Some(orphan) = ended_child().filter(|child| Some(*child) != command) {
                let _ = waitid(Id::Pid(orphan), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG);
            }
            if ended.recv().await.is_none() {
                return;
            }
        }
    });
}

/// A child that has ended; its exit status can still be read.
fn ended_child() -> Option<Pid> {
    waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT).ok()?.pid()
}
