//! Decides whether the operations of one thread have an order that explains all that was observed: each operation takes
//! effect at one moment between its beginning and its end, with the outcome that the model gives it there. (Wing and
//! Gong's search, with Lowe's memory of what was tried.)
//!
//! - An operation that was never answered may have taken effect at any moment after its beginning, or not at all.
//! - The states of a watch are moments of that order, in the order in which they were sent, after the watch was
//!   requested and before they arrived. Each has a higher revision than the one before.
//!
//! An operation that changes nothing is placed as soon as it fits, because it does not restrict the others. So only
//! changes leave a choice, and their revisions restrict it.
use crate::history::{Operation, Outcome, What};
use crate::service::{Answer, Call, Id, Leases, Now, Thread};
use std::collections::HashSet;

/// No lease ends by itself.
const NO_LEASES: Leases = Leases { anonymous_ttl: None, max_pause: None };
/// Time stands still in a history: its leases are long, and nothing that is remembered is forgotten.
const NOW: Now = Now { at: 0, wall: 0 };

/// Searches for an order of `operations`, all of one thread, whose revision was `floor` before.
///
/// # Errors
/// There is none. The error has the longest order that was found.
pub(crate) fn check(operations: &[Operation], floor: u64) -> Result<(), String> {
    let mut search = Search { operations, tried: HashSet::new(), best: Vec::new(), best_state: Thread::above(floor) };
    let falling = operations.iter().find(|operation| search.does_not_rise(operation));
    if let Some(falling) = falling {
        return Err(format!("G6: a watch went back, or told a state again: {falling}"));
    }
    let mut placed = Placed { done: vec![0; operations.len().div_ceil(64)], order: Vec::new() };
    if search.complete(&mut placed, Thread::above(floor)) {
        return Ok(());
    }
    let line = |i: &usize| format!("  {}\n", operations[*i]);
    let order: String = search.best.iter().map(line).collect();
    let left: String = (0..operations.len()).filter(|i| !search.best.contains(i)).map(|i| line(&i)).collect();
    let Thread { revision, open, .. } = search.best_state;
    let open: Vec<_> = open.iter().map(|open| open.id).collect();
    Err(format!(
        "no order explains this. In order:\n{order}then, at revision {revision} with {open:?} open, none of\n{left}"
    ))
}

/// The operations that are placed, as bits and in their order.
struct Placed {
    done: Vec<u64>,
    order: Vec<usize>,
}

impl Placed {
    fn has(&self, i: usize) -> bool {
        self.done[i / 64] & (1 << (i % 64)) != 0
    }

    fn push(&mut self, i: usize) {
        self.done[i / 64] |= 1 << (i % 64);
        self.order.push(i);
    }

    fn truncate(&mut self, length: usize) {
        for i in self.order.drain(length..) {
            self.done[i / 64] &= !(1 << (i % 64));
        }
    }
}

struct Search<'a> {
    operations: &'a [Operation],
    /// States from which the search cannot succeed.
    tried: HashSet<(Vec<u64>, Thread)>,
    best: Vec<usize>,
    best_state: Thread,
}

impl Search<'_> {
    /// Places the remaining operations, if possible.
    fn complete(&mut self, placed: &mut Placed, state: Thread) -> bool {
        let length = placed.order.len();
        while let Some(i) = self.eligible(placed).into_iter().find(|&i| self.fits_unchanged(i, &state)) {
            placed.push(i);
        }
        if placed.order.len() > self.best.len() {
            (self.best, self.best_state) = (placed.order.clone(), state.clone());
        }
        if self.operations.iter().enumerate().all(|(i, operation)| operation.ended.is_none() || placed.has(i)) {
            return true;
        }
        if self.tried.insert((placed.done.clone(), state.clone())) {
            for i in self.eligible(placed) {
                let Some(next) = self.changed(i, &state) else { continue };
                placed.push(i);
                if self.complete(placed, next) {
                    return true;
                }
                placed.truncate(placed.order.len() - 1);
            }
        }
        placed.truncate(length);
        false
    }

    /// The operations that may come next: no other unplaced operation ended before they began.
    fn eligible(&self, placed: &Placed) -> Vec<usize> {
        let left = || (0..self.operations.len()).filter(|&i| !placed.has(i));
        let ends = left().filter_map(|i| self.operations[i].ended.as_ref().map(|(ended, _)| *ended));
        let first_end = ends.min().unwrap_or(u64::MAX);
        let ready = |&i: &usize| self.operations[i].began < first_end && self.before(i).is_none_or(|i| placed.has(i));
        left().filter(ready).collect()
    }

    /// The position of the state that the same watch sent before.
    fn before(&self, i: usize) -> Option<usize> {
        let What::Watch { before: Some(before) } = self.operations[i].what else { return None };
        Some(self.place_of(before))
    }

    fn place_of(&self, number: Id) -> usize {
        let found = self.operations.iter().position(|operation| operation.number == number);
        found.expect("a watch of the thread sent it")
    }

    fn does_not_rise(&self, operation: &Operation) -> bool {
        let What::Watch { before: Some(before) } = operation.what else { return false };
        let revision = |operation: &Operation| match operation.ended {
            Some((_, Outcome::State { revision, .. })) => Some(revision),
            _ => None,
        };
        revision(operation) <= revision(&self.operations[self.place_of(before)])
    }

    /// Whether an operation without effect would have the observed outcome here.
    fn fits_unchanged(&self, i: usize, state: &Thread) -> bool {
        let Some((_, outcome)) = &self.operations[i].ended else { return false };
        match (&self.operations[i].what, outcome) {
            (What::Change(call), Outcome::Refused(refusal)) => {
                state.clone().call(call, self.operations[i].number, NO_LEASES, NOW) == Err(*refusal)
            }
            (What::Get | What::Watch { .. }, Outcome::State { count, revision, open }) => {
                let ids = || state.open.iter().map(|open| open.id);
                (*count, *revision) == (state.open.len(), state.revision)
                    && open.as_ref().is_none_or(|open| ids().eq(open.iter().copied()))
            }
            _ => false,
        }
    }

    /// The state after a change, if its outcome here is the observed one, or none was observed.
    fn changed(&self, i: usize, state: &Thread) -> Option<Thread> {
        let Operation { number, ended, what: What::Change(call), .. } = &self.operations[i] else { return None };
        let mut next = state.clone();
        let answer = next.call(call, *number, NO_LEASES, NOW).ok()?;
        let (Answer::Opened { count, revision, .. } | Answer::Closed { count, revision }) = answer else { return None };
        let as_seen = |(_, outcome): &(u64, Outcome)| *outcome == Outcome::Changed { count, revision };
        ended.as_ref().is_none_or(as_seen).then_some(next)
    }
}

/// Checks every thread of a history.
///
/// # Errors
/// See [`check`].
pub(crate) fn check_all<'a>(
    operations: &[Operation],
    threads: impl IntoIterator<Item = (&'a str, u64)>,
) -> Result<(), String> {
    threads.into_iter().try_for_each(|(thread, floor)| {
        let own: Vec<_> = operations.iter().filter(|operation| operation.thread == thread).cloned().collect();
        check(&own, floor).map_err(|why| format!("thread {thread:?}: {why}"))
    })
}

/// An increment in a history.
pub(crate) fn increment(ttl: Option<u64>) -> Call {
    Call::Increment { request_id: None, reason: 0, holder: 0, ttl }
}

/// A decrement in a history.
pub(crate) fn decrement(elicitation: Option<Id>) -> Call {
    Call::Decrement { request_id: None, elicitation, by_admin: false }
}
