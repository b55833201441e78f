//! Pending approvals (protocol version 2026-07-28): questions that were the response to a call, until the client repeats the
//! call with the answer.
//!
//! 1. The client's `requestState` is signed, valid for the same request only, and usable once. It contains only a random
//!    id; the state stays here.
//! 2. The clock of the call is paused meanwhile. An abandoned question is dropped with its clock, so nothing stays paused. If it is about a
//!    program of a running command, the command ends with it, unless the command outlives its call.
//! 3. There are at most [`MAX_PENDING`] (G7). When they are full, a new one evicts the oldest of the thread that has most, so
//!    that one busy thread does not evict the questions of others.
use super::{
    ask::{Answer, Asked},
    clock::Clock,
    exec_questions::TakenQuestion,
    idle::InUse,
    running_call::RunningCall,
};
use crate::client::stopwatch::PauseGuard;
use rmcp::model::{RequestStateCodec, SealOptions};
use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

/// How long a question stays open: as long as the longest lease.
const PENDING_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum number of open questions.
const MAX_PENDING: usize = 1_000;

impl WaitingExec {
    /// Answers the question, and returns the call to go on with. Without an answer the question is asked again.
    pub(super) fn answered(self, answer: Option<Answer>) -> RunningCall {
        let Self { call, question, .. } = self;
        if let Some(answer) = answer {
            let asked = Asked::of(question.prompt(), &answer);
            question.answer(asked);
        }
        call
    }
}

/// The open questions of a server.
pub(super) struct PendingApprovals {
    /// How long a question about a command that has not started stays open.
    start_ttl: Duration,
    codec: RequestStateCodec,
    open: Arc<OpenQuestions>,
}

type OpenQuestions = Mutex<HashMap<[u8; 16], Open>>;

struct Open {
    /// The thread that the call names; calls that name none count as one thread.
    thread: Option<String>,
    waiting: Waiting,
    since: Instant,
    /// Removes it in the end.
    _expiry: AbortOnDropHandle<()>,
}

/// A command or a program that waits for an answer.
pub(super) enum Waiting {
    /// A command that has not started.
    Start { clock: Clock, _pause: PauseGuard },
    /// A program that a running command is about to execute.
    Exec(Box<WaitingExec>),
}

/// Neither the idle timeout of the command nor the yield deadline of the call runs meanwhile.
pub(super) struct WaitingExec {
    pub(super) call: RunningCall,
    pub(super) question: TakenQuestion,
    _in_use: InUse,
    _pause: Option<PauseGuard>,
}

impl Waiting {
    pub(super) fn start(clock: Clock) -> Self {
        let _pause = clock.stopwatch().pause();
        Self::Start { clock, _pause }
    }

    pub(super) fn exec(call: RunningCall, question: TakenQuestion) -> Self {
        let _in_use = call.command.idle.in_use();
        let _pause = call.until.as_ref().map(|until| until.stopwatch().pause());
        Self::Exec(Box::new(WaitingExec { call, question, _in_use, _pause }))
    }
}

impl PendingApprovals {
    /// `max_pause`: the maximum time until the answer. (A program of a running command is denied then, and the command goes on.)
    pub(super) fn new(max_pause: Option<Duration>) -> Self {
        // Two random numbers of 122 bits each.
        let key = [Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()].concat();
        let codec = RequestStateCodec::try_new(key).expect("32 bytes are long enough");
        Self { start_ttl: max_pause.unwrap_or(PENDING_TTL).min(PENDING_TTL), codec, open: Arc::default() }
    }

    /// Keeps what waits for the answer to the question that is the response to a call, and returns the `requestState` for the client.
    pub(super) fn put(&self, waiting: Waiting, thread: Option<String>, request: &[u8]) -> String {
        let id = Uuid::new_v4().into_bytes();
        let all = Arc::downgrade(&self.open);
        let ttl = if matches!(waiting, Waiting::Start { .. }) { self.start_ttl } else { PENDING_TTL };
        let expiry = async move {
            sleep(ttl).await;
            drop(all.upgrade().and_then(|all| lock(&all).remove(&id)));
        };
        let _expiry = AbortOnDropHandle::new(tokio::spawn(expiry));
        let mut open = self.open();
        // Dropped without the lock.
        let _evicted = (open.len() >= MAX_PENDING).then(|| evict_one(&mut open));
        open.insert(id, Open { thread, waiting, since: Instant::now(), _expiry });
        drop(open);
        self.codec.seal_with(&id, &SealOptions::new().associated_data(request).ttl(ttl))
    }

    /// Takes what waits for the answer to the question with `state`, and returns the time since it was asked.
    ///
    /// # Errors
    /// `state` is forged, for another request, too old, evicted or used.
    pub(super) fn take(&self, state: &str, request: &[u8]) -> Result<(Waiting, Duration), &'static str> {
        let id = self.codec.open_with(state, request).ok().and_then(|id| id.try_into().ok());
        let open = id.and_then(|id: [u8; 16]| self.open().remove(&id));
        open.map(|open| (open.waiting, open.since.elapsed())).ok_or(
            "requestState belongs to another request, is too old, was evicted by newer ones, or was used before: call again \
             without it to ask the person again",
        )
    }

    fn open(&self) -> MutexGuard<'_, HashMap<[u8; 16], Open>> {
        lock(&self.open)
    }
}

fn lock(open: &OpenQuestions) -> MutexGuard<'_, HashMap<[u8; 16], Open>> {
    // Each change is one insertion or removal.
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the oldest question of the thread that has the most.
fn evict_one(open: &mut HashMap<[u8; 16], Open>) -> Option<Open> {
    let mut counts = HashMap::<_, usize>::new();
    open.values().for_each(|open| *counts.entry(&open.thread).or_default() += 1);
    let first = open.iter().max_by_key(|(_, open)| (counts[&open.thread], Reverse(open.since)));
    let id = first.map(|(id, _)| *id)?;
    open.remove(&id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::stopwatch::StopwatchController;

    fn waiting() -> Waiting {
        let clock = Clock::start(&StopwatchController::detached(), "t", Some(Duration::from_secs(1))).unwrap();
        Waiting::start(clock)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_valid_once_and_for_its_request_only() {
        let pending = PendingApprovals::new(None);
        let state = pending.put(waiting(), None, b"git push");
        assert!(pending.take(&state, b"rm").is_err(), "for another request");
        assert!(pending.take(&state.replace('.', "!"), b"git push").is_err(), "forged");
        assert!(PendingApprovals::new(None).take(&state, b"git push").is_err(), "of another server");
        tokio::time::advance(Duration::from_secs(5)).await;
        let Ok((Waiting::Start { clock, .. }, _)) = pending.take(&state, b"git push") else {
            panic!("it waits to start")
        };
        assert_eq!(clock.read().active, Duration::ZERO, "it was paused");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(clock.read().active, Duration::from_secs(1), "it runs again");
        assert!(pending.take(&state, b"git push").is_err(), "used up");
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_questions_are_dropped() {
        let pending = PendingApprovals::new(None);
        (0..9).for_each(|_| _ = pending.put(waiting(), None, b""));
        sleep(PENDING_TTL - Duration::from_secs(1)).await;
        pending.put(waiting(), None, b"");
        assert_eq!(pending.open().len(), 10);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(pending.open().len(), 1, "without another question");
    }

    #[tokio::test(start_paused = true)]
    async fn the_busiest_thread_loses_its_oldest_question() {
        let pending = PendingApprovals::new(None);
        let put = async |thread: &str| {
            tokio::time::advance(Duration::from_millis(1)).await;
            pending.put(waiting(), Some(thread.to_owned()), b"")
        };
        let patient = put("patient").await;
        let (first, second) = (put("busy").await, put("busy").await);
        for _ in 0..MAX_PENDING - 3 {
            put("busy").await;
        }
        let late = put("late").await;
        assert_eq!(pending.open().len(), MAX_PENDING);
        assert!(pending.take(&first, b"").is_err_and(|why| why.contains("was evicted")), "its oldest");
        for state in [second, patient, late] {
            assert!(pending.take(&state, b"").is_ok());
        }
    }
}
