//! The term of a leader: it serves requests, writes heartbeats, and moves the log into rows, until the term ends.
use super::chain::{Chain, Ended, TICK, Written};
use super::kv::Kv;
use super::load::LoadError;
use crate::coordinator::store::CommitError;
use std::pin::pin;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

const TICK_NANOS: i64 = TICK.as_nanos() as i64;
/// The time until the next step of a checkpoint while there are no calls.
const STEP: Duration = Duration::from_millis(20);

/// A request of a leader to its chain.
#[derive(Debug)]
pub(super) enum Request {
    /// Makes a batch durable; an empty one checks whether a batch would be accepted.
    Commit(Vec<u8>, Reply),
    /// Checks that the term has not ended.
    Confirm(Reply),
}

pub(super) type Reply = oneshot::Sender<Result<(), CommitError>>;

impl<K: Kv> Chain<K> {
    /// Serves `requests` until the term ends or all senders are gone; then any replica may take over at once.
    /// `next_row`: see [`Chain::left_behind`].
    pub(super) async fn run(mut self, mut requests: mpsc::Receiver<Request>, next_row: u64) -> Ended {
        let mut left_behind = pin!(self.left_behind(next_row));
        loop {
            let done = tokio::select! {
                biased;
                // This branch is first, so that many requests do not delay a heartbeat: a confirmation only reads, and
                // is no heartbeat.
                () = self.rest() => Ok(()),
                left = &mut left_behind, if !self.checkpoints.have_begun() => match left {
                    Ok(left) => self.begin_checkpoints(left),
                    Err(LoadError::Compacted) => Err(Ended("etcd compacted the log of earlier terms before it was read".into())),
                    Err(LoadError::Damaged(error)) => Err(Ended(error.to_string())),
                },
                request = requests.recv() => match request {
                    Some(request) => self.serve(request).await,
                    None => return self.release().await,
                },
            };
            let silent = self.machine.boot().saturating_sub(self.written);
            let done = match done {
                Ok(()) if silent >= TICK_NANOS => self.tick().await,
                done => done,
            };
            let done = match done {
                Ok(()) => self.maintain().await,
                ended => ended,
            };
            if let Err(ended) = done {
                return ended;
            }
        }
    }

    /// Waits until the next heartbeat, or the next step of a checkpoint.
    async fn rest(&self) {
        let silent = self.machine.boot().saturating_sub(self.written).max(0);
        let left = Duration::from_nanos(TICK_NANOS.saturating_sub(silent).max(0).unsigned_abs());
        let has_more = self.checkpoints.are_being_written() && !self.is_refused();
        sleep(if has_more { left.min(STEP) } else { left }).await;
    }

    async fn serve(&mut self, request: Request) -> Result<(), Ended> {
        let (done, reply) = match request {
            Request::Commit(batch, reply) => (self.commit(&batch).await, reply),
            Request::Confirm(reply) => (self.confirm().await.map(|()| Written::Done), reply),
        };
        let (answer, done) = match done {
            Ok(Written::Done) => (Ok(()), Ok(())),
            Ok(Written::Refused(why)) => (Err(CommitError::Refused(why)), Ok(())),
            Err(ended) => (Err(CommitError::Deposed(ended.0.clone())), Err(ended)),
        };
        // The caller may have gone away.
        let _ = reply.send(answer);
        done
    }

    /// Writes a heartbeat.
    async fn tick(&mut self) -> Result<(), Ended> {
        match self.write(None, false).await? {
            Written::Done => Ok(()),
            Written::Refused(why) => {
                if !self.pulse.full.swap(true, Relaxed) {
                    tracing::warn!(why, "etcd accepts no writes");
                }
                self.written = self.machine.boot();
                // If etcd accepts no writes, nobody can take over either: a read is enough.
                self.confirm().await
            }
        }
    }

    /// Ends the term so that others need not wait.
    async fn release(mut self) -> Ended {
        // A replica that sees the freed record takes over at once.
        self.pulse.written.store(i64::MIN, SeqCst);
        match self.write(None, true).await {
            Ok(_) => Ended("this replica gave up the leadership".into()),
            Err(ended) => ended,
        }
    }

    /// Does the work that is due besides requests: a step of a checkpoint, a check of the free space, a compaction.
    pub(super) async fn maintain(&mut self) -> Result<(), Ended> {
        self.write_rows().await?;
        self.pulse.log_bytes.store(self.checkpoints.bytes(), Relaxed);
        let now = self.machine.boot();
        self.housekeeping.keep(&self.kv, &self.pulse, self.revision, now).await;
        Ok(())
    }
}
