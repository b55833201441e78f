//! Stopwatches that follow threads.
use super::{LONG, a_while, all_wait, join, now, run_until};
use crate::client::stopwatch::{Stopwatch, StopwatchController};
use crate::client::{Client, DecrementElicitationRequest, IncrementElicitationRequest, PauseState};
use crate::runner::Case;
use crate::world::{s, server::Server};
use shuttle::{
    future::{JoinHandle, block_on, spawn},
    thread,
};
use std::time::Duration;
use tokio::{task::yield_now, time::advance};

fn state(thread_id: &str, revision: u64, paused: bool) -> PauseState {
    let paused_total = Some(prost_types::Duration::default());
    PauseState { thread_id: thread_id.to_owned(), revision, paused, paused_total, ..PauseState::default() }
}

fn wait(stopwatch: &Stopwatch) -> JoinHandle<Duration> {
    let stopwatch = stopwatch.clone();
    spawn(async move {
        stopwatch.expired().await;
        now()
    })
}

pub(super) const RESUME_WAKES: Case = Case {
    name: "the_end_of_a_threads_pause_wakes_who_waits",
    run: the_end_of_a_threads_pause_wakes_who_waits,
    share: 4,
};

/// Two stopwatches of a thread that is paused and then runs again, while tasks begin to wait for them.
fn the_end_of_a_threads_pause_wakes_who_waits() {
    let controller = StopwatchController::detached();
    let stopwatches = [Stopwatch::new(s(10)), Stopwatch::new(s(10))];
    let registered = stopwatches.each_ref().map(|stopwatch| controller.register("a", stopwatch).expect("a valid id"));
    let waiters = stopwatches.each_ref().map(wait);
    let other = {
        let controller = controller.clone();
        thread::spawn(move || {
            controller.apply(&state("a", 1, true));
            controller.apply(&state("a", 2, false));
        })
    };
    other.join().expect("it does not panic");
    advance(s(10));
    assert_eq!(waiters.map(join), [s(10); 2]);
    drop(registered);
}

pub(super) const LEAVING_WAKES: Case =
    Case { name: "leaving_a_paused_thread_wakes_who_waits", run: leaving_a_paused_thread_wakes_who_waits, share: 4 };

/// The thread stays paused; the stopwatch leaves it and continues.
fn leaving_a_paused_thread_wakes_who_waits() {
    let controller = StopwatchController::detached();
    let stopwatch = Stopwatch::new(s(10));
    let registered = controller.register("a", &stopwatch).expect("a valid id");
    controller.apply(&state("a", 1, true));
    let waiter = wait(&stopwatch);
    drop(registered);
    assert!(!stopwatch.is_paused());
    advance(s(10));
    assert_eq!(join(waiter), s(10));
}

pub(super) const MOVING_WAKES: Case =
    Case { name: "moving_to_another_thread_wakes_who_waits", run: moving_to_another_thread_wakes_who_waits, share: 4 };

/// A stopwatch moves from a paused thread to a running one, while the state of the first one changes.
fn moving_to_another_thread_wakes_who_waits() {
    let controller = StopwatchController::detached();
    let (stopwatch, other) = (Stopwatch::new(s(10)), Stopwatch::unlimited());
    let old = controller.register("a", &stopwatch).expect("a valid id");
    let also = controller.register("b", &other).expect("a valid id");
    controller.apply(&state("a", 1, true));
    controller.apply(&state("b", 1, false));
    let waiter = wait(&stopwatch);
    let states = {
        let controller = controller.clone();
        thread::spawn(move || {
            controller.apply(&state("a", 2, false));
            controller.apply(&state("a", 3, true));
        })
    };
    let new = controller.register("b", &stopwatch).expect("a valid id");
    drop(old);
    states.join().expect("it does not panic");
    assert!(!stopwatch.is_paused(), "it follows b, which runs");
    controller.apply(&state("b", 2, true));
    assert!(stopwatch.is_paused(), "the end of the old registration must not end the new one");
    controller.apply(&state("b", 3, false));
    advance(s(10));
    assert_eq!(join(waiter), s(10));
    drop((new, also));
}

pub(super) const REGISTRATIONS: Case =
    Case { name: "no_registration_is_left_out_of_step", run: no_registration_is_left_out_of_step, share: 1 };

/// Stopwatches come and go under a thread that is paused and resumed, and that the coordinator evicts between two of
/// them.
fn no_registration_is_left_out_of_step() {
    let server = Server::start();
    let client = Client::new(&server, 0);
    let controller = StopwatchController::new(client.clone());
    let ends_paused = tokio::choose();
    let pauses = {
        let client = client.with_deadline(LONG);
        spawn(async move {
            client.increment_elicitation(increment()).await.expect("nothing is lost");
            client.decrement_elicitation(decrement()).await.expect("nothing is lost");
            if ends_paused {
                client.increment_elicitation(increment()).await.expect("nothing is lost");
            }
        })
    };
    let registrations = [(); 2].map(|()| {
        let controller = controller.clone();
        spawn(async move {
            let stopwatch = Stopwatch::unlimited();
            drop(controller.register("t", &stopwatch).expect("a valid id"));
            yield_now().await;
            drop(controller.register("t", &stopwatch).expect("a valid id"));
            yield_now().await;
            let registered = controller.register("t", &stopwatch).expect("a valid id");
            (stopwatch, registered)
        })
    });
    // The linger time of the idle thread ends meanwhile.
    for _ in 0..3 {
        advance(s(30));
        a_while();
    }
    join(pauses);
    let registered = registrations.map(join);
    // All stopwatches get the state of the server without any time passing.
    all_wait();
    for (stopwatch, registration) in registered {
        assert_eq!(stopwatch.is_paused(), ends_paused);
        drop(registration);
        assert!(!stopwatch.is_paused(), "it no longer follows a thread");
    }
}

/// A lost query is repeated within this time.
const RETRY: Duration = Duration::from_millis(50);

pub(super) const NO_FALSE_KILL: Case = Case {
    name: "no_stopwatch_expires_in_an_acknowledged_pause",
    run: no_stopwatch_expires_in_an_acknowledged_pause,
    share: 1,
};

/// G1, with a watch that the scheduler may delay as much as it likes: two stopwatches share the query before their
/// expiry, and its request is lost once. And G2: when the pause has ended, both expire.
fn no_stopwatch_expires_in_an_acknowledged_pause() {
    let server = Server::start();
    let client = Client::new(&server, 0);
    let controller = StopwatchController::new(Client::new(&server, 1));
    let stopwatches = [Stopwatch::new(s(2)), Stopwatch::new(s(3))];
    let registered = stopwatches.each_ref().map(|stopwatch| controller.register("t", stopwatch).expect("a valid id"));
    let waiters = stopwatches.each_ref().map(wait);
    let pauses_at = s(u64::from(tokio::choose()) + 2 * u64::from(tokio::choose()));
    let mut acknowledged = None;
    for _ in 0..4 {
        a_while();
        if now() == pauses_at {
            let client = client.clone();
            acknowledged = Some(spawn(async move {
                client.increment_elicitation(increment()).await.expect("nothing is lost");
                now()
            }));
        }
        a_while();
        advance(s(1));
    }
    let acknowledged = join(acknowledged.expect("it pauses in one of the seconds"));
    all_wait();
    for (waiter, limit) in waiters.iter().zip([s(2), s(3)]) {
        assert!(
            acknowledged >= limit || !waiter.is_finished(),
            "a limit of {limit:?} expired, although paused since {acknowledged:?}"
        );
    }
    block_on(client.decrement_elicitation(decrement())).expect("nothing is lost");
    let resumed = now();
    run_until(|| waiters.iter().all(JoinHandle::is_finished));
    for (waiter, limit) in waiters.into_iter().zip([s(2), s(3)]) {
        let expired = join(waiter);
        assert!(expired <= resumed + limit + RETRY, "{limit:?}, resumed at {resumed:?}, expired at {expired:?}");
    }
    drop((registered, controller));
}

fn increment() -> IncrementElicitationRequest {
    IncrementElicitationRequest { thread_id: "t".to_owned(), ..IncrementElicitationRequest::default() }
}

fn decrement() -> DecrementElicitationRequest {
    DecrementElicitationRequest { thread_id: "t".to_owned(), ..DecrementElicitationRequest::default() }
}
