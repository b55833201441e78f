//! Kills the remaining processes of sessions in batches: one scan of the system's processes serves all waiting callers.
use super::session::{Session, kill_all};
use tokio::sync::{mpsc, oneshot};

/// A handle of the task that kills sessions; the task ends with the last clone.
#[derive(Clone)]
pub(crate) struct SessionKiller(mpsc::UnboundedSender<(Session, oneshot::Sender<()>)>);

impl SessionKiller {
    /// Needs a tokio runtime.
    pub(crate) fn start() -> Self {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut batch: Vec<(Session, oneshot::Sender<()>)> = Vec::new();
            while receiver.recv_many(&mut batch, usize::MAX).await > 0 {
                let sessions: Vec<_> = batch.iter().map(|(session, _)| *session).collect();
                let _ = tokio::task::spawn_blocking(move || kill_all(&sessions)).await;
                for (_, done) in batch.drain(..) {
                    let _ = done.send(());
                }
            }
        });
        Self(sender)
    }

    /// Sends KILL to all processes of the session and waits until there are none.
    pub(crate) async fn kill(&self, session: Session) {
        let (done, killed) = oneshot::channel();
        if self.0.send((session, done)).is_ok() {
            let _ = killed.await;
        }
    }
}
