//! The cases: each prepares a situation, lets its tasks run in any order, and checks what must be true after all of
//! them.
//!
//! The name of a case states what must hold. README.md shows which change of the code makes each case fail.
mod controller;
mod group;
mod hold;
mod hub;
mod progress;
mod stopwatch;

use crate::runner::Case;
use crate::world::s;
use shuttle::future::{JoinHandle, block_on};
use std::time::Duration;
use tokio::time::{advance, until_next};

pub(crate) const ALL: &[Case] = &[
    stopwatch::LAST_PAUSE_WAKES,
    stopwatch::DROPPED_PAUSE_FOR,
    stopwatch::CHARGED_WHILE_UNPAUSED,
    controller::RESUME_WAKES,
    controller::LEAVING_WAKES,
    controller::MOVING_WAKES,
    controller::REGISTRATIONS,
    controller::NO_FALSE_KILL,
    hub::LAST_STATE,
    hub::CLOSE,
    hub::ADDED,
    group::ANSWERED_ONCE,
    group::REFUSED,
    group::STOPPED,
    hold::CLOSED_AT_ONCE,
    hold::CLOSED_IN_TIME,
    hold::RELEASED_ONCE,
    progress::TOLD_AS_FAR,
];

/// The result of a task that nothing aborts.
fn join<T>(task: JoinHandle<T>) -> T {
    block_on(task).expect("nobody aborts it")
}

/// Repeats until `done`: lets the other tasks run until all of them wait, then advances the time to the next one that
/// wakes up.
fn run_until(mut done: impl FnMut() -> bool) {
    loop {
        all_wait();
        if done() {
            return;
        }
        // A task that sleeps for this long waits for something else.
        let next = until_next().filter(|&next| next < LONG);
        advance(next.expect("everybody waits, and no time will wake them"));
    }
}

/// Lets the other tasks run until all of them wait (see `runner::Patient`).
fn all_wait() {
    shuttle::thread::yield_now();
}

/// A few steps or many, in which the other tasks get as far as the scheduler likes.
fn a_while() {
    let steps = 1 << (2 * (usize::from(tokio::choose()) + 2 * usize::from(tokio::choose())));
    (0..steps).for_each(|_| tokio::point());
}

/// The time that has passed.
fn now() -> Duration {
    tokio::time::passed()
}

/// Longer than any case waits.
const LONG: Duration = s(1_000);
