//! What clients saw of one service: who called when, and what came back.
use crate::service::{Call, Id, Refusal};
use std::fmt::{self, Display, Formatter};
use std::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// A call, from when it was first sent to when its answer was there, however often it was sent in between.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) number: Id,
    pub(crate) thread: String,
    pub(crate) began: u64,
    /// `None`: nobody knows what became of it.
    pub(crate) ended: Option<(u64, Outcome)>,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Change(Call),
    Get,
    /// A state that a watch sent, and which one it sent before.
    Watch {
        before: Option<Id>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An increment or a decrement was accepted.
    Changed {
        count: usize,
        revision: u64,
    },
    Refused(Refusal),
    /// `open`: which elicitations, each named by the increment that opened it; `None`: was not asked.
    State {
        count: usize,
        revision: u64,
        open: Option<Vec<Id>>,
    },
}

impl Display for Operation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Operation { number, thread, began, ended, what } = self;
        match ended {
            None => write!(f, "#{number} {thread} {began:>4}..     {what:?}: never answered"),
            Some((ended, outcome)) => write!(f, "#{number} {thread} {began:>4}..{ended:<4} {what:?}: {outcome:?}"),
        }
    }
}

/// Writes down operations as they begin and end. What it writes is in the order of time: one clock, and one lock.
#[derive(Default)]
pub(crate) struct Recorder {
    recorded: Mutex<Recorded>,
    grown: Notify,
}

#[derive(Default)]
struct Recorded {
    clock: u64,
    operations: Vec<Operation>,
}

impl Recorded {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

impl Recorder {
    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().expect("nothing panics while it holds the record")
    }

    pub(crate) fn now(&self) -> u64 {
        self.recorded().tick()
    }

    /// An operation is about to be sent.
    pub(crate) fn begin(&self, thread: &str, what: What) -> Id {
        let mut recorded = self.recorded();
        let (number, began, thread) = (recorded.operations.len(), recorded.tick(), thread.to_owned());
        recorded.operations.push(Operation { number, thread, began, ended: None, what });
        self.grown.notify_waiters();
        number
    }

    /// Its answer has come.
    pub(crate) fn end(&self, number: Id, outcome: Outcome) {
        let mut recorded = self.recorded();
        recorded.operations[number].ended = Some((recorded.tick(), outcome));
    }

    /// A watch that was asked for at `began` has sent a state.
    pub(crate) fn seen(&self, thread: &str, began: u64, before: Option<Id>, outcome: Outcome) -> Id {
        let number = self.begin(thread, What::Watch { before });
        self.recorded().operations[number].began = began;
        self.end(number, outcome);
        number
    }

    /// Waits until so many operations have begun.
    pub(crate) async fn begun(&self, operations: usize) {
        loop {
            // Asked for before the look, so that none is missed.
            let grown = self.grown.notified();
            if self.recorded().operations.len() >= operations {
                return;
            }
            grown.await;
        }
    }

    pub(crate) fn operations(&self) -> Vec<Operation> {
        self.recorded().operations.clone()
    }
}
