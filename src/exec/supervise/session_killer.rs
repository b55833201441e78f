//! Ends what commands have left behind, many at once: one look at the processes of the system serves all who wait.
use super::session::{Session, kill_all};
use tokio::sync::{mpsc, oneshot};

/// Where to bring sessions that are to end. Clones are the same one; it works for as long as one of them exists.
#[derive(Debug, Clone)]
pub(crate) struct SessionKiller(mpsc::UnboundedSender<(Session, oneshot::Sender<()>)>);

impl SessionKiller {
    /// Needs a tokio runtime.
    pub(crate) fn start() -> Self {
        let (bring, mut brought) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut batch: Vec<(Session, oneshot::Sender<()>)> = Vec::new();
            while brought.recv_many(&mut batch, usize::MAX).await > 0 {
                let sessions = batch.iter().map(|(session, _)| session.id()).collect();
                let _ = tokio::task::spawn_blocking(move || kill_all(&sessions)).await;
                for (_, done) in batch.drain(..) {
                    let _ = done.send(());
                }
            }
        });
        Self(bring)
    }

    /// KILL to all that is left of the session; returns when nothing is.
    pub(crate) async fn sweep(&self, session: Session) {
        let (done, swept) = oneshot::channel();
        if self.0.send((session, done)).is_ok() {
            let _ = swept.await;
        }
    }
}
