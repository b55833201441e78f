//! SIGHUP: read again what may have changed on the disk (certificates, tokens, a log that was rotated).
//!
//! Whoever has something to read again subscribes. A signal that comes while it reads is not lost: it reads once more.
use tokio::signal::unix::Signal;
use tokio::sync::watch;

/// Counts the signals. Dropped, it takes no subscribers any more; the signal still does not end the process.
pub(super) struct Reload(watch::Receiver<u64>);

/// Counts the signals of `hangup`, for as long as the runtime lives: without that, the first would end the process.
pub(super) fn on_hangup(mut hangup: Signal) -> Reload {
    let (count, counted) = watch::channel(0);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            tracing::info!("SIGHUP: reading certificates, tokens and the like again");
            count.send_modify(|count| *count += 1);
        }
    });
    Reload(counted)
}

impl Reload {
    /// Changes with every SIGHUP from now on.
    #[expect(dead_code, reason = "nothing is read again yet")]
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        let mut counted = self.0.clone();
        counted.mark_unchanged();
        counted
    }
}
