//! What clients observed of one service: the calls, their times, and their results.
use crate::service::{Call, Id, Refusal};
use std::fmt::{self, Display, Formatter};
use std::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// A call, from the first time it was sent until its answer arrived, however often it was repeated.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) number: Id,
    pub(crate) thread: String,
    pub(crate) began: u64,
    /// `None`: the outcome is unknown.
    pub(crate) ended: Option<(u64, Outcome)>,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Change(Call),
    Get,
    /// A state that a watch sent, and the state that it sent before.
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
    /// `open`: the elicitations, each by the increment that opened it; `None`: not requested.
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

/// Records operations when they begin and end, in the order of time: one clock, and one lock.
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

    /// Records that an operation is about to be sent.
    pub(crate) fn begin(&self, thread: &str, what: What) -> Id {
        let mut recorded = self.recorded();
        let (number, began, thread) = (recorded.operations.len(), recorded.tick(), thread.to_owned());
        recorded.operations.push(Operation { number, thread, began, ended: None, what });
        self.grown.notify_waiters();
        number
    }

    /// Records its answer.
    pub(crate) fn end(&self, number: Id, outcome: Outcome) {
        let mut recorded = self.recorded();
        recorded.operations[number].ended = Some((recorded.tick(), outcome));
    }

    /// Records a state from a watch that was requested at `began`.
    pub(crate) fn seen(&self, thread: &str, began: u64, before: Option<Id>, outcome: Outcome) -> Id {
        let number = self.begin(thread, What::Watch { before });
        self.recorded().operations[number].began = began;
        self.end(number, outcome);
        number
    }

    /// Waits until this many operations have begun.
    pub(crate) async fn begun(&self, operations: usize) {
        loop {
            // Registered before the check, so that no notification is missed.
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
