//! The stopwatch alone.
use pausewatch::client::PauseState;
use pausewatch::stopwatch::{EndedBy, Stopwatch, StopwatchController};
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test(start_paused = true)]
async fn a_stopwatch_expires_at_its_limit() {
    let start = Instant::now();
    let stopwatch = Stopwatch::new(s(3));
    sleep(s(1)).await;
    assert_eq!((stopwatch.elapsed(), stopwatch.remaining()), (s(1), Some(s(2))));
    stopwatch.expired().await;
    assert_eq!(start.elapsed(), s(3));
    stopwatch.expired().await;
    sleep(s(1)).await;
    assert_eq!((stopwatch.elapsed(), stopwatch.remaining()), (s(4), Some(s(0))));
}

#[tokio::test(start_paused = true)]
async fn a_zero_limit_expires_at_once_and_no_limit_never_expires() {
    Stopwatch::new(s(0)).expired().await;
    let unlimited = Stopwatch::unlimited();
    assert!(timeout(s(1_000_000), unlimited.expired()).await.is_err());
    assert_eq!((unlimited.remaining(), unlimited.elapsed()), (None, s(1_000_000)));
    assert!(timeout(s(1_000_000), Stopwatch::new(Duration::MAX).expired()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn pauses_nest_and_the_last_one_to_end_counts() {
    let start = Instant::now();
    let stopwatch = Stopwatch::new(s(3));
    let waiter = tokio::spawn({
        let stopwatch = stopwatch.clone();
        async move { stopwatch.expired().await }
    });
    sleep(s(1)).await;
    let first = stopwatch.pause();
    sleep(s(10)).await;
    let second = stopwatch.pause();
    assert!(stopwatch.is_paused());
    drop(first);
    sleep(s(10)).await;
    assert_eq!((stopwatch.elapsed(), stopwatch.remaining()), (s(1), Some(s(2))));
    drop(second);
    assert!(!stopwatch.is_paused());
    waiter.await.unwrap();
    assert_eq!(start.elapsed(), s(23));
}

#[tokio::test(start_paused = true)]
async fn pause_for_pauses_while_its_future_runs() {
    let stopwatch = Stopwatch::new(s(3));
    let answer = stopwatch.pause_for(async {
        sleep(s(8)).await;
        "yes"
    });
    assert_eq!(answer.await, "yes");
    assert_eq!(stopwatch.elapsed(), s(0));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_pause_for_resumes() {
    let stopwatch = Stopwatch::new(s(3));
    assert!(timeout(s(8), stopwatch.pause_for(std::future::pending::<()>())).await.is_err());
    assert!(!stopwatch.is_paused());
    let resumed = Instant::now();
    stopwatch.expired().await;
    assert_eq!(resumed.elapsed(), s(3));

    let never_polled = stopwatch.pause_for(std::future::pending::<()>());
    assert!(!stopwatch.is_paused());
    drop(never_polled);
}

#[tokio::test(start_paused = true)]
async fn every_waiter_is_woken_at_the_expiry() {
    let start = Instant::now();
    let stopwatch = Stopwatch::new(s(3));
    let waiters: Vec<_> = (0..100)
        .map(|_| {
            let stopwatch = stopwatch.clone();
            tokio::spawn(async move {
                stopwatch.expired().await;
                Instant::now()
            })
        })
        .collect();
    stopwatch.pause_for(sleep(s(8))).await;
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap() - start, s(11));
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_can_be_cancelled_and_repeated() {
    let start = Instant::now();
    let stopwatch = Stopwatch::new(s(3));
    while timeout(ms(100), stopwatch.expired()).await.is_err() {}
    assert_eq!(start.elapsed(), s(3));
}

fn state(count: u32, revision: u64, paused_total: Duration) -> PauseState {
    PauseState {
        thread_id: "t".to_owned(),
        count,
        paused: count > 0,
        revision,
        paused_total: Some(paused_total.try_into().unwrap()),
        ..PauseState::default()
    }
}

#[tokio::test(start_paused = true)]
async fn g3_overlapping_own_and_thread_pauses_count_once() {
    let controller = StopwatchController::detached();
    let stopwatch = Stopwatch::new(s(100));
    let _registered = controller.register("t", &stopwatch).unwrap();
    controller.apply(&state(0, 1, s(0)));
    let own = stopwatch.pause();
    sleep(s(5)).await;
    controller.apply(&state(1, 2, s(0)));
    sleep(s(5)).await;
    drop(own);
    assert!(stopwatch.is_paused());
    sleep(s(5)).await;
    controller.apply(&state(0, 3, s(10)));
    assert_eq!(stopwatch.elapsed(), s(0));
    sleep(s(1)).await;
    assert_eq!(stopwatch.elapsed(), s(1));
}

#[tokio::test(start_paused = true)]
async fn a_stopwatch_runs_on_after_its_registration_ends() {
    let controller = StopwatchController::detached();
    let stopwatch = Stopwatch::new(s(3));
    let registered = controller.register("t", &stopwatch).unwrap();
    controller.apply(&state(1, 1, s(0)));
    sleep(s(10)).await;
    let start = Instant::now();
    tokio::spawn(async move {
        sleep(s(1)).await;
        drop(registered);
    });
    stopwatch.expired().await;
    assert_eq!(start.elapsed(), s(4), "a waiting task must be woken");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_registration_leaves_others_of_its_thread_unchanged() {
    let controller = StopwatchController::detached();
    let stopwatches = [s(3), s(3), s(3)].map(Stopwatch::new);
    let mut registered = stopwatches.each_ref().map(|stopwatch| Some(controller.register("t", stopwatch).unwrap()));
    for left in [0, 2] {
        registered[left] = None;
    }
    controller.apply(&state(1, 1, s(0)));
    assert_eq!(stopwatches.each_ref().map(Stopwatch::is_paused), [false, true, false]);
}

/// It must not use more time when little of its limit is left.
#[tokio::test(start_paused = true)]
async fn a_waiter_of_a_paused_stopwatch_sleeps() {
    let controller = StopwatchController::detached();
    let stopwatch = Stopwatch::new(ms(2));
    let _registered = controller.register("t", &stopwatch).unwrap();
    controller.apply(&state(1, 1, s(0)));
    let looks = AtomicU32::new(0);
    let mut expired = pin!(stopwatch.expired());
    let waiting = poll_fn(|cx| {
        looks.fetch_add(1, Relaxed);
        expired.as_mut().poll(cx)
    });
    assert!(timeout(s(3_600), waiting).await.is_err());
    assert!(looks.load(Relaxed) <= 3, "{looks:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stopwatch_follows_the_thread_registered_last() {
    let controller = StopwatchController::detached();
    let stopwatch = Stopwatch::new(s(3));
    let first = controller.register("t", &stopwatch).unwrap();
    let _second = controller.register("other", &stopwatch).unwrap();
    controller.apply(&state(1, 1, s(0)));
    assert!(!stopwatch.is_paused());
    controller.apply(&PauseState { thread_id: "other".to_owned(), ..state(1, 1, s(0)) });
    drop(first);
    assert!(stopwatch.is_paused(), "the older registration no longer has an effect");
}

/// A resume between the check and the wait must still wake the waiter, at any moment.
#[test]
fn no_resume_is_lost_between_check_and_wait() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        for round in 0..3_000_u32 {
            let controller = StopwatchController::detached();
            let stopwatch = Stopwatch::new(s(0));
            let _registered = controller.register("t", &stopwatch).unwrap();
            controller.apply(&state(1, 1, s(0)));
            let own = stopwatch.pause();
            let waiter = tokio::spawn({
                let stopwatch = stopwatch.clone();
                async move { stopwatch.expired().await }
            });
            // A little later each time, so that the two threads meet the waiter at every step.
            (0..round % 300).for_each(|_| std::hint::spin_loop());
            drop(own);
            (0..round % 177).for_each(|_| std::hint::spin_loop());
            controller.apply(&state(0, 2, s(0)));
            timeout(s(20), waiter).await.expect("a wake-up was lost").unwrap();
        }
    });
}

/// As `tokio::time::timeout`: a finished result is returned, and an unfinished future is dropped at the end of the
/// time.
#[tokio::test(start_paused = true)]
async fn run_is_a_timeout_whose_clock_stands_still_in_pauses() {
    let stopwatch = Stopwatch::new(s(3));
    let start = Instant::now();
    assert_eq!(stopwatch.run(sleep(s(2))).await, Ok(()));
    let (dropped, kept) = tokio::sync::oneshot::channel::<()>();
    let work = async {
        let _dropped = dropped;
        stopwatch.pause_for(sleep(s(60))).await;
        std::future::pending::<()>().await;
    };
    let elapsed = stopwatch.run(work).await.unwrap_err();
    assert_eq!((elapsed.ended_by(), start.elapsed().as_secs()), (EndedBy::Limit, 63));
    assert!(kept.await.is_err(), "the future must be dropped at the end");
    assert_eq!(std::io::Error::from(elapsed).kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(stopwatch.run(async { 7 }).await, Ok(7), "a finished result is returned");
    assert!(stopwatch.run(std::future::pending::<()>()).await.is_err());

    let walled = Stopwatch::builder().max_wall(s(5)).start();
    let cancelled = tokio::time::timeout(s(1), walled.run(std::future::pending::<()>())).await;
    assert!(cancelled.is_err() && walled.ended_by().is_none(), "after a drop, the stopwatch continues");
    let elapsed = walled.run(std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(
        (elapsed.ended_by(), elapsed.to_string()),
        (EndedBy::MaxWall, "the limit on wall time is used up".into())
    );
}
