//! The requests that bring Codex's counts in step with the coordinator: pure, without clock or I/O.
//!
//! Codex counts the open questions of each thread, without a lease. The bridge adds at most one to each count: one while the
//! coordinator has the thread paused.
//!
//! 1. A thread has at most one request under way; what has changed meanwhile is decided when its answer arrives.
//! 2. A count is ours from the moment its increment is sent until a decrement is answered. A count that is ours is
//!    decremented even if it is uncertain whether it still exists (3).
//! 3. The app-server keeps a count when a connection ends. So after a reconnect a count that was ours is first decremented;
//!    if the app-server was restarted, that fails and changes nothing.
use super::message::{Op, Outcome};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Our part of a thread's count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    Zero,
    One,
    /// The connection was lost.
    Uncertain,
}

#[derive(Debug)]
struct Thread {
    paused: bool,
    count: Count,
    under_way: Option<(u64, Op)>,
}

impl Thread {
    fn due(&self) -> Option<Op> {
        match (self.under_way, self.count, self.paused) {
            (Some(_), ..) | (_, Count::Zero, false) | (_, Count::One, true) => None,
            (_, Count::Zero, true) => Some(Op::Increment),
            (_, Count::Uncertain, _) | (_, Count::One, false) => Some(Op::Decrement),
        }
    }

    fn is_ours(&self) -> bool {
        self.count != Count::Zero || self.under_way.is_some_and(|(_, op)| op == Op::Increment)
    }
}

/// A request to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub number: u64,
    pub op: Op,
    pub thread_id: String,
}

/// The consequence of an answer, beyond the counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    Nothing,
    /// Call [`Reconciler::retry`] in a moment.
    Retry,
    /// The app-server does not have this thread; it was removed.
    NotLoaded(String),
    /// The app-server cannot change counts at all; nothing more is sent.
    Unusable(Outcome),
    /// The app-server refused an increment; nothing more is sent until the thread's pause changes.
    Refused(String),
    /// The app-server refused a decrement: the count is still ours. Call [`Reconciler::retry`] in a moment.
    NotUndone(String),
}

/// The counts of all threads that the app-server has.
#[derive(Debug, Default)]
pub(super) struct Reconciler {
    threads: HashMap<String, Thread>,
    /// The threads of the requests under way.
    under_way: HashMap<u64, String>,
    /// The threads that may have a request due.
    changed: BTreeSet<String>,
    busy: BTreeSet<String>,
    last_number: u64,
    is_unusable: bool,
}

impl Reconciler {
    /// Adds a running thread. Returns false if it is known already.
    pub(super) fn add(&mut self, thread_id: &str) -> bool {
        let is_new = !self.threads.contains_key(thread_id);
        if is_new {
            let thread = Thread { paused: false, count: Count::Zero, under_way: None };
            self.threads.insert(thread_id.to_owned(), thread);
        }
        is_new
    }

    /// Removes a thread that the app-server has closed; its count is gone.
    pub(super) fn remove(&mut self, thread_id: &str) {
        self.threads.remove(thread_id);
        self.changed.remove(thread_id);
        self.busy.remove(thread_id);
    }

    /// The threads that are not among these.
    pub(super) fn threads_except(&self, thread_ids: &[String]) -> Vec<String> {
        let kept: HashSet<_> = thread_ids.iter().collect();
        self.threads.keys().filter(|thread_id| !kept.contains(thread_id)).cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.threads.len()
    }

    /// Sets the state of a thread at the coordinator. Unknown threads are ignored.
    pub(super) fn set_paused(&mut self, thread_id: &str, paused: bool) {
        if let Some(thread) = self.threads.get_mut(thread_id) {
            thread.paused = paused;
            self.changed.insert(thread_id.to_owned());
        }
    }

    /// Marks all threads as running.
    pub(super) fn release_all(&mut self) {
        for (thread_id, thread) in &mut self.threads {
            thread.paused = false;
            self.changed.insert(thread_id.clone());
        }
    }

    /// Whether the thread is paused, by the coordinator's last state.
    pub(super) fn is_paused(&self, thread_id: &str) -> bool {
        self.threads.get(thread_id).is_some_and(|thread| thread.paused)
    }

    /// Records that the connection to the app-server is lost, with all pending answers.
    pub(super) fn disconnect(&mut self) {
        self.under_way.clear();
        for (thread_id, thread) in &mut self.threads {
            if thread.is_ours() {
                thread.count = Count::Uncertain;
                self.changed.insert(thread_id.clone());
            }
            thread.under_way = None;
        }
        self.changed.append(&mut self.busy);
    }

    /// The requests that are due; they count as sent.
    pub(super) fn requests(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        for thread_id in std::mem::take(&mut self.changed) {
            let Some(thread) = self.threads.get_mut(&thread_id) else { continue };
            if let Some(op) = thread.due().filter(|_| !self.is_unusable) {
                self.last_number += 1;
                let number = self.last_number;
                thread.under_way = Some((number, op));
                self.under_way.insert(number, thread_id.clone());
                requests.push(Request { number, op, thread_id });
            }
        }
        requests
    }

    /// The answer to a request.
    pub(super) fn answer(&mut self, number: u64, outcome: Outcome) -> NextStep {
        let Some(thread_id) = self.under_way.remove(&number) else { return NextStep::Nothing };
        let under_way =
            self.threads.get_mut(&thread_id).filter(|thread| thread.under_way.is_some_and(|(n, _)| n == number));
        // The thread was closed, and perhaps opened again.
        let Some(thread) = under_way else { return NextStep::Nothing };
        let Some((_, op)) = thread.under_way.take() else { return NextStep::Nothing };
        self.changed.insert(thread_id.clone());
        match (outcome, op) {
            (Outcome::Done, Op::Increment) => thread.count = Count::One,
            (Outcome::Done, Op::Decrement) => thread.count = Count::Zero,
            (Outcome::Busy, _) => {
                self.changed.remove(&thread_id);
                self.busy.insert(thread_id);
                return NextStep::Retry;
            }
            (Outcome::NotLoaded, _) => {
                self.remove(&thread_id);
                return NextStep::NotLoaded(thread_id);
            }
            (outcome @ (Outcome::UnknownMethod | Outcome::NotExperimental), _) => {
                thread.count = Count::Zero;
                // Other requests were sent at the same time; their answers say the same.
                let is_known = std::mem::replace(&mut self.is_unusable, true);
                return if is_known { NextStep::Nothing } else { NextStep::Unusable(outcome) };
            }
            (Outcome::Failed(why), Op::Decrement) => {
                self.changed.remove(&thread_id);
                self.busy.insert(thread_id);
                return NextStep::NotUndone(why);
            }
            (Outcome::Failed(why), Op::Increment) => {
                (thread.count, thread.paused) = (Count::Zero, false);
                return NextStep::Refused(why);
            }
        }
        NextStep::Nothing
    }

    /// Makes requests due again: those that the app-server was too busy for, and decrements that it refused.
    pub(super) fn retry(&mut self) {
        self.changed.append(&mut self.busy);
    }

    /// The threads whose counts contain one of ours, or may.
    pub(super) fn ours(&self) -> Vec<&str> {
        let ours = self.threads.iter().filter(|(_, thread)| thread.is_ours());
        let mut ours: Vec<_> = ours.map(|(thread_id, _)| thread_id.as_str()).collect();
        ours.sort_unstable();
        ours
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Op::{Decrement, Increment};

    /// The requests that are due, without their numbers.
    fn due(counts: &mut Reconciler) -> Vec<(Op, String)> {
        counts.requests().into_iter().map(|request| (request.op, request.thread_id)).collect()
    }

    fn of_a(op: Op) -> Vec<(Op, String)> {
        vec![(op, "a".to_owned())]
    }

    fn with_a() -> Reconciler {
        let mut counts = Reconciler::default();
        assert!(counts.add("a") && !counts.add("a"));
        counts
    }

    #[test]
    fn each_pause_is_counted_once() {
        let mut counts = with_a();
        counts.set_paused("unknown", true);
        counts.set_paused("a", false);
        assert_eq!(due(&mut counts), []);
        counts.set_paused("a", true);
        assert_eq!(due(&mut counts), of_a(Increment));
        counts.set_paused("a", true);
        assert_eq!((due(&mut counts), counts.ours()), (vec![], vec!["a"]), "ours while the answer is awaited");
        assert_eq!(counts.answer(1, Outcome::Done), NextStep::Nothing);
        counts.set_paused("a", true);
        assert_eq!(due(&mut counts), []);
        counts.set_paused("a", false);
        assert_eq!((due(&mut counts), counts.ours()), (of_a(Decrement), vec!["a"]));
        counts.answer(2, Outcome::Done);
        assert_eq!((due(&mut counts), counts.ours()), (vec![], vec![]));
        assert_eq!(counts.answer(2, Outcome::Done), NextStep::Nothing, "an answer that came twice");
    }

    #[test]
    fn a_change_during_a_request_is_decided_at_its_answer() {
        let mut counts = with_a();
        counts.set_paused("a", true);
        counts.requests();
        counts.set_paused("a", false);
        assert_eq!(due(&mut counts), []);
        counts.answer(1, Outcome::Done);
        assert_eq!(due(&mut counts), of_a(Decrement));
        counts.set_paused("a", true);
        counts.answer(2, Outcome::Done);
        assert_eq!(due(&mut counts), of_a(Increment));
        counts.release_all();
        counts.answer(3, Outcome::Done);
        assert_eq!(due(&mut counts), of_a(Decrement));
    }

    #[test]
    fn a_busy_server_is_asked_again_with_what_is_due_then() {
        let mut counts = with_a();
        counts.set_paused("a", true);
        counts.requests();
        assert_eq!((counts.answer(1, Outcome::Busy), due(&mut counts)), (NextStep::Retry, vec![]));
        assert!(counts.ours().is_empty());
        counts.retry();
        assert_eq!(due(&mut counts), of_a(Increment));
        counts.answer(2, Outcome::Done);
        counts.set_paused("a", false);
        counts.requests();
        counts.answer(3, Outcome::Busy);
        assert_eq!(counts.ours(), ["a"]);
        counts.set_paused("a", true);
        counts.retry();
        assert_eq!((due(&mut counts), counts.ours()), (vec![], vec!["a"]), "paused again before the decrement");
    }

    #[test]
    fn after_a_lost_connection_what_may_be_ours_is_decremented_first() {
        for answered in [true, false] {
            let mut counts = with_a();
            counts.add("b");
            counts.set_paused("a", true);
            counts.requests();
            if answered {
                counts.answer(1, Outcome::Done);
            }
            counts.disconnect();
            assert_eq!(counts.ours(), ["a"]);
            assert_eq!(due(&mut counts), of_a(Decrement));
            assert_eq!(counts.answer(1, Outcome::Done), NextStep::Nothing, "of the lost connection");
            counts.answer(2, Outcome::Done);
            assert_eq!(due(&mut counts), of_a(Increment));
        }
    }

    #[test]
    fn closed_threads_are_forgotten() {
        let mut counts = with_a();
        counts.set_paused("a", true);
        counts.requests();
        assert_eq!(counts.answer(1, Outcome::NotLoaded), NextStep::NotLoaded("a".to_owned()));
        assert_eq!((counts.len(), counts.ours()), (0, vec![]));
        counts.add("a");
        counts.set_paused("a", true);
        counts.requests();
        counts.remove("a");
        assert!(counts.add("a"), "loaded again, with a count of zero");
        assert_eq!((counts.answer(2, Outcome::Done), counts.ours()), (NextStep::Nothing, vec![]));
        assert!(!counts.is_paused("a"));
    }

    #[test]
    fn a_server_that_cannot_do_it_is_left_alone() {
        let mut counts = with_a();
        counts.add("b");
        counts.set_paused("a", true);
        counts.requests();
        assert_eq!(counts.answer(1, Outcome::UnknownMethod), NextStep::Unusable(Outcome::UnknownMethod));
        counts.set_paused("b", true);
        assert_eq!((due(&mut counts), counts.ours()), (vec![], vec![]));
    }

    #[test]
    fn a_decrement_that_fails_is_repeated() {
        let mut counts = with_a();
        counts.set_paused("a", true);
        counts.requests();
        counts.answer(1, Outcome::Done);
        counts.set_paused("a", false);
        counts.requests();
        assert_eq!(counts.answer(2, Outcome::Failed("no".to_owned())), NextStep::NotUndone("no".to_owned()));
        assert_eq!((due(&mut counts), counts.ours()), (vec![], vec!["a"]));
        counts.retry();
        assert_eq!(due(&mut counts), of_a(Decrement));
    }

    #[test]
    fn a_refused_request_is_not_repeated_until_the_pause_changes() {
        let mut counts = with_a();
        counts.set_paused("a", true);
        counts.requests();
        assert_eq!(counts.answer(1, Outcome::Failed("no".to_owned())), NextStep::Refused("no".to_owned()));
        assert_eq!((due(&mut counts), counts.ours()), (vec![], vec![]));
        counts.set_paused("a", true);
        assert_eq!(due(&mut counts), of_a(Increment));
    }

    #[test]
    fn an_unusable_app_server_is_reported_once_however_many_requests_it_refuses() {
        let mut counts = Reconciler::default();
        for thread_id in ["a", "b"] {
            counts.add(thread_id);
            counts.set_paused(thread_id, true);
        }
        assert_eq!(counts.requests().len(), 2);
        assert_eq!(counts.answer(1, Outcome::UnknownMethod), NextStep::Unusable(Outcome::UnknownMethod));
        assert_eq!(counts.answer(2, Outcome::UnknownMethod), NextStep::Nothing);
    }
}
