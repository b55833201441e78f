//! Tests of the checker with hand-made histories: each possible one stands beside an impossible one.
use crate::history::{Operation, Outcome, What};
use crate::linear::{check, decrement, increment};
use crate::service::{Id, Refusal, SECOND};

/// An operation from `began` to `ended`.
fn operation(number: Id, (began, ended): (u64, u64), what: What, outcome: Outcome) -> Operation {
    Operation { number, thread: "t".into(), began, ended: Some((ended, outcome)), what }
}

fn opened(number: Id, when: (u64, u64), count: usize, revision: u64) -> Operation {
    operation(number, when, What::Change(increment(None)), Outcome::Changed { count, revision })
}

fn closed(number: Id, when: (u64, u64), which: Option<Id>, count: usize, revision: u64) -> Operation {
    operation(number, when, What::Change(decrement(which)), Outcome::Changed { count, revision })
}

fn refused(number: Id, when: (u64, u64), which: Option<Id>, why: Refusal) -> Operation {
    operation(number, when, What::Change(decrement(which)), Outcome::Refused(why))
}

fn got(number: Id, when: (u64, u64), revision: u64, open: &[Id]) -> Operation {
    operation(number, when, What::Get, Outcome::State { count: open.len(), revision, open: Some(open.to_vec()) })
}

fn seen(number: Id, when: (u64, u64), before: Option<Id>, count: usize, revision: u64) -> Operation {
    operation(number, when, What::Watch { before }, Outcome::State { count, revision, open: None })
}

/// The same operation without an answer.
fn lost(mut operation: Operation) -> Operation {
    operation.ended = None;
    operation
}

#[track_caller]
fn possible(history: &[Operation]) {
    check(history, 0).unwrap_or_else(|why| panic!("{why}"));
}

#[track_caller]
fn impossible(history: &[Operation]) {
    let mut history = history.to_vec();
    assert!(check(&history, 0).is_err());
    // The order in which operations were recorded does not matter.
    history.reverse();
    assert!(check(&history, 0).is_err());
}

#[test]
fn nothing_is_possible() {
    possible(&[]);
    possible(&[got(0, (1, 2), 0, &[])]);
    impossible(&[got(0, (1, 2), 1, &[])]);
}

#[test]
fn a_stale_read_is_refused() {
    possible(&[opened(0, (1, 4), 1, 1), got(1, (2, 3), 0, &[])]);
    impossible(&[opened(0, (1, 2), 1, 1), got(1, (3, 4), 0, &[])]);
}

#[test]
fn an_answer_from_the_future_is_refused() {
    possible(&[got(1, (1, 4), 1, &[0]), opened(0, (2, 3), 1, 1)]);
    impossible(&[got(1, (1, 2), 1, &[0]), opened(0, (3, 4), 1, 1)]);
}

#[test]
fn a_read_that_goes_back_is_refused() {
    let change = opened(0, (1, 9), 1, 1);
    possible(&[change.clone(), got(1, (2, 3), 0, &[]), got(2, (4, 5), 1, &[0])]);
    impossible(&[change, got(1, (2, 3), 1, &[0]), got(2, (4, 5), 0, &[])]);
}

#[test]
fn a_lost_update_is_refused() {
    possible(&[opened(0, (1, 4), 1, 1), opened(1, (2, 3), 2, 2), got(2, (5, 6), 2, &[0, 1])]);
    impossible(&[opened(0, (1, 4), 1, 1), opened(1, (2, 3), 1, 1)]);
    impossible(&[opened(0, (1, 4), 1, 1), opened(1, (2, 3), 2, 2), got(2, (5, 6), 1, &[1])]);
}

#[test]
fn a_call_that_counts_twice_is_refused() {
    possible(&[opened(0, (1, 2), 1, 1), got(1, (3, 4), 1, &[0])]);
    impossible(&[opened(0, (1, 2), 1, 1), got(1, (3, 4), 2, &[0, 0])]);
    impossible(&[opened(0, (1, 2), 2, 2), got(1, (3, 4), 2, &[0])]);
}

#[test]
fn an_unanswered_call_happened_at_most_once_and_not_before_it_began() {
    let unknown = lost(opened(0, (1, 0), 0, 0));
    possible(&[unknown.clone(), got(1, (2, 3), 0, &[])]);
    possible(&[unknown.clone(), got(1, (2, 3), 1, &[0])]);
    possible(&[unknown.clone(), got(1, (2, 3), 0, &[]), got(2, (4, 5), 1, &[0])]);
    impossible(&[unknown.clone(), got(1, (2, 3), 1, &[0]), got(2, (4, 5), 0, &[])]);
    impossible(&[unknown, got(1, (2, 3), 2, &[0, 0])]);
    impossible(&[got(1, (1, 2), 1, &[0]), lost(opened(0, (3, 0), 0, 0))]);
}

#[test]
fn a_decrement_that_names_none_closes_the_oldest_without_a_ttl() {
    let leased = |number, when, count, revision| {
        let what = What::Change(increment(Some(60 * SECOND)));
        operation(number, when, what, Outcome::Changed { count, revision })
    };
    let begin = [leased(0, (1, 2), 1, 1), opened(1, (3, 4), 2, 2), opened(2, (5, 6), 3, 3)];
    let end = |open: &[Id]| [closed(3, (7, 8), None, 2, 4), got(4, (9, 10), 4, open)];
    possible(&[&begin[..], &end(&[0, 2])].concat());
    impossible(&[&begin[..], &end(&[0, 1])].concat());
    impossible(&[&begin[..], &end(&[1, 2])].concat());
}

#[test]
fn a_refusal_needs_its_reason() {
    possible(&[opened(0, (1, 2), 1, 1), refused(1, (0, 3), None, Refusal::NoOutstanding)]);
    impossible(&[opened(0, (1, 2), 1, 1), refused(1, (3, 4), None, Refusal::NoOutstanding)]);
    let begin = [opened(0, (1, 2), 1, 1), closed(1, (3, 6), Some(0), 0, 2)];
    possible(&[&begin[..], &[refused(2, (4, 5), Some(0), Refusal::Released)]].concat());
    impossible(&[&begin[..], &[refused(2, (7, 8), Some(0), Refusal::Expired)]].concat());
    impossible(&[&begin[..], &[refused(2, (7, 8), Some(0), Refusal::Unknown)]].concat());
}

#[test]
fn the_states_of_a_watch_are_moments_of_the_order() {
    let changes = [opened(0, (1, 2), 1, 1), opened(1, (3, 4), 2, 2), closed(2, (5, 6), None, 1, 3)];
    let with = |states: &[Operation]| [&changes[..], states].concat();
    possible(&with(&[seen(3, (0, 9), None, 0, 0), seen(4, (0, 10), Some(3), 1, 3)]));
    possible(&with(&[seen(3, (0, 9), None, 1, 1), seen(4, (0, 10), Some(3), 2, 2)]));
    // It was already outdated when the watch was requested.
    impossible(&with(&[seen(3, (7, 9), None, 2, 2)]));
    // Before the change happened.
    impossible(&with(&[seen(3, (0, 2), None, 2, 2)]));
    // Back to an earlier state.
    impossible(&with(&[seen(3, (0, 9), None, 2, 2), seen(4, (0, 10), Some(3), 1, 1)]));
    impossible(&with(&[seen(3, (0, 9), None, 1, 1), seen(4, (0, 10), Some(3), 1, 1)]));
    // A state that never existed.
    impossible(&with(&[seen(3, (0, 9), None, 2, 3)]));
}
