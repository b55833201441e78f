//! The cases: each sets a scene, lets its tasks run in any order, and checks what must be true after all of them.
//!
//! A name says what holds. What each one guards against is shown by removing it: see README.md.
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

/// The outcome of a task that nobody aborts.
fn join<T>(task: JoinHandle<T>) -> T {
    block_on(task).expect("nobody aborts it")
}

/// Until `done`: lets the others run until all of them wait, and then moves the time on to the next who wakes by it.
fn run_until(mut done: impl FnMut() -> bool) {
    loop {
        all_wait();
        if done() {
            return;
        }
        // Who sleeps for so long waits for something else.
        let next = until_next().filter(|&next| next < LONG);
        advance(next.expect("everybody waits, and no time will wake them"));
    }
}

/// Lets the others run until all of them wait (see `runner::Patient`).
fn all_wait() {
    shuttle::thread::yield_now();
}

/// A few steps or many, in which the others come as far as the scheduler likes.
fn a_while() {
    let steps = 1 << (2 * (usize::from(tokio::choose()) + 2 * usize::from(tokio::choose())));
    (0..steps).for_each(|_| tokio::point());
}

/// The time that has passed.
fn now() -> Duration {
    tokio::time::passed()
}

/// Longer than any case looks ahead.
const LONG: Duration = s(1_000);
