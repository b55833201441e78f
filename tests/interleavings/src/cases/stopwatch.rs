//! A stopwatch and its own pauses.
use super::{a_while, join, now};
use crate::client::stopwatch::Stopwatch;
use crate::runner::Case;
use crate::world::s;
use shuttle::{
    future::{block_on, spawn},
    thread,
};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};
use tokio::{task::yield_now, time::advance};

pub(super) const LAST_PAUSE_WAKES: Case = Case {
    name: "the_end_of_the_last_pause_wakes_who_waits",
    run: the_end_of_the_last_pause_wakes_who_waits,
    share: 4,
};

/// One task waits while two pauses end. No timer would wake it: only the end of the pauses does.
fn the_end_of_the_last_pause_wakes_who_waits() {
    let stopwatch = Stopwatch::new(s(10));
    let (outer, inner) = (stopwatch.pause(), stopwatch.pause());
    let waiters = [(); 2].map(|()| {
        let stopwatch = stopwatch.clone();
        spawn(async move {
            stopwatch.expired().await;
            now()
        })
    });
    let other = thread::spawn(move || drop(inner));
    drop(outer);
    other.join().expect("it does not panic");
    assert!(!stopwatch.is_paused());
    advance(s(10));
    assert_eq!(waiters.map(join), [s(10); 2]);
}

pub(super) const DROPPED_PAUSE_FOR: Case =
    Case { name: "pause_for_dropped_anywhere_resumes_once", run: pause_for_dropped_anywhere_resumes_once, share: 2 };

/// During a pause that stays, one `pause_for` ends and one is dropped anywhere: before it began, half-way, or after its
/// end.
fn pause_for_dropped_anywhere_resumes_once() {
    let stopwatch = Stopwatch::new(s(10));
    let outer = stopwatch.pause();
    let [kept, dropped] = [(); 2].map(|()| {
        let stopwatch = stopwatch.clone();
        spawn(async move {
            let two_steps = async {
                yield_now().await;
                yield_now().await;
            };
            stopwatch.pause_for(two_steps).await;
        })
    });
    let waiter = {
        let stopwatch = stopwatch.clone();
        spawn(async move { stopwatch.expired().await })
    };
    a_while();
    dropped.abort();
    let _ = block_on(dropped);
    join(kept);
    assert!(stopwatch.is_paused(), "no pause may be ended twice");
    advance(s(20));
    assert_eq!(stopwatch.elapsed(), s(0));
    drop(outer);
    assert!(!stopwatch.is_paused(), "no pause may be left");
    advance(s(10));
    join(waiter);
    assert_eq!(stopwatch.elapsed(), s(10));
}

pub(super) const CHARGED_WHILE_UNPAUSED: Case =
    Case { name: "time_is_charged_while_nothing_pauses", run: time_is_charged_while_nothing_pauses, share: 1 };

/// Time passes while two tasks pause. A second in which a pause was certainly open is not charged, one in which
/// certainly none was open is charged, and the waiting task wakes neither early nor never.
fn time_is_charged_while_nothing_pauses() {
    let stopwatch = Stopwatch::new(s(3));
    let (surely, perhaps) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let waiter = {
        let stopwatch = stopwatch.clone();
        spawn(async move {
            stopwatch.expired().await;
            assert!(stopwatch.elapsed() >= s(3), "expired after {:?}", stopwatch.elapsed());
        })
    };
    let pausers = [(); 2].map(|()| {
        let (stopwatch, surely, perhaps) = (stopwatch.clone(), surely.clone(), perhaps.clone());
        spawn(async move {
            perhaps.fetch_add(1, SeqCst);
            let guard = stopwatch.pause();
            surely.fetch_add(1, SeqCst);
            yield_now().await;
            surely.fetch_sub(1, SeqCst);
            drop(guard);
            perhaps.fetch_sub(1, SeqCst);
        })
    });
    let (mut least, mut most) = (0_u32, 0_u32);
    for _ in 0..3 {
        // In one step with the second: the scheduler cannot switch in between.
        if surely.load(SeqCst) == 0 {
            most += 1;
            least += u32::from(perhaps.load(SeqCst) == 0);
        }
        advance(s(1));
        let elapsed = stopwatch.elapsed();
        assert!(s(u64::from(least)) <= elapsed && elapsed <= s(most.into()), "{elapsed:?} is not {least} to {most} s");
    }
    pausers.into_iter().for_each(join);
    advance(s(3));
    join(waiter);
}
