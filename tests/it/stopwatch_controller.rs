//! Stopwatches that follow threads: the guarantees G1 to G3 as an exec server sees them.
mod cut_off;

use crate::fake::{Fake, settle};
use pausewatch::client::Error;
use pausewatch::stopwatch::{Link, Registration, Stopwatch, StopwatchController};
use std::time::Duration;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

const GRACE: Duration = s(30);

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A stopwatch under thread "t", and a task that waits for its end.
struct Command {
    stopwatch: Stopwatch,
    start: Instant,
    _registered: Registration,
    expired: JoinHandle<Duration>,
}

impl Command {
    fn start(controller: &StopwatchController, limit: Duration) -> Self {
        let (stopwatch, start) = (Stopwatch::new(limit), Instant::now());
        let _registered = controller.register("t", &stopwatch).unwrap();
        let waiting = stopwatch.clone();
        let expired = tokio::spawn(async move {
            waiting.expired().await;
            start.elapsed()
        });
        Self { stopwatch, start, _registered, expired }
    }

    /// The time from its start to its expiry.
    async fn lasted(self) -> Duration {
        self.expired.await.unwrap()
    }

    async fn until(&self, since_start: Duration) {
        tokio::time::sleep_until(self.start + since_start).await;
    }
}

/// Timers, and answers under way, may add a few milliseconds.
#[track_caller]
fn assert_close(actual: Duration, expected: Duration) {
    assert!(actual >= expected && actual <= expected + ms(5), "{actual:?}, expected {expected:?}");
}

async fn connected(fake: &Fake) -> StopwatchController {
    let controller = StopwatchController::new(fake.client());
    // Any registration, so that the stream is open.
    let idle = Stopwatch::unlimited();
    let _registered = controller.register("t", &idle).unwrap();
    controller.link().wait_for(|link| *link == Link::Connected).await.unwrap();
    controller
}

#[tokio::test(start_paused = true)]
async fn g3_a_pause_of_the_thread_is_not_charged() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(3));
    command.until(s(1)).await;
    fake.pause("t");
    command.until(s(5)).await;
    fake.pause("t");
    assert!(command.stopwatch.is_paused());
    fake.resume("t");
    command.until(s(9)).await;
    assert_close(command.stopwatch.elapsed(), s(1));
    fake.resume("t");
    assert_close(command.lasted().await, s(11));
}

#[tokio::test(start_paused = true)]
async fn g1_increments_just_before_the_deadline_prevent_the_expiry() {
    for before in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 30, 35, 40, 45, 50] {
        let fake = Fake::start();
        let controller = connected(&fake).await;
        // The watch is silent: only a query can save the command.
        fake.script().mute = true;
        let command = Command::start(&controller, s(3));
        command.until(s(3) - ms(before)).await;
        let hold = fake.client().hold("t").open().await.unwrap();
        command.until(s(20)).await;
        assert!(!command.expired.is_finished(), "{before} ms before the deadline");
        hold.release().await.unwrap();
        fake.script().mute = false;
        let lasted = command.lasted().await;
        assert!(lasted >= s(20), "{lasted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn g1_the_answer_to_an_earlier_request_does_not_count() {
    let fake = Fake::start();
    let controller = connected(&fake).await;
    fake.script().mute = true;
    let first = Command::start(&controller, s(1));
    let second = Command::start(&controller, ms(1_100));
    first.until(ms(900)).await;
    fake.hold_answers(true);
    first.until(ms(1_050)).await;
    assert_eq!(fake.calls("confirm").len(), 1, "the query was sent, and its answer (running) is held back");
    fake.pause("t");
    first.until(ms(1_150)).await;
    fake.hold_answers(false);
    assert_close(first.lasted().await, ms(1_150));
    settle().await;
    assert!(!second.expired.is_finished(), "the second expired after the increment");
    assert_eq!(fake.calls("confirm").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn g1_a_confirmation_finds_the_pause_after_the_server_lost_its_state() {
    let fake = Fake::start();
    let controller = connected(&fake).await;
    let command = Command::start(&controller, s(3));
    for _ in 0..3 {
        fake.pause("t");
        settle().await;
        fake.resume("t");
        settle().await;
    }
    // Its revisions restart, and the watch does not notice.
    fake.script().mute = true;
    fake.world(|world| world.forget_everything());
    fake.pause("t");
    command.until(s(10)).await;
    assert!(!command.expired.is_finished());
    assert!(command.stopwatch.is_paused());
}

#[tokio::test(start_paused = true)]
async fn one_query_serves_all_stopwatches_that_run_out_together() {
    let fake = Fake::start();
    let controller = connected(&fake).await;
    let commands: Vec<_> = (0..1_000).map(|_| Command::start(&controller, s(3))).collect();
    for command in commands {
        assert_close(command.lasted().await, s(3));
    }
    assert!(fake.calls("confirm").len() <= 2, "{} questions", fake.calls("confirm").len());
}

#[tokio::test(start_paused = true)]
async fn g7_threads_that_run_out_together_are_confirmed_together() {
    let fake = Fake::start();
    let controller = connected(&fake).await;
    let stopwatches: Vec<_> = (0..1_000).map(|_| Stopwatch::new(s(3))).collect();
    let register = |(i, stopwatch)| controller.register(&format!("t{i}"), stopwatch).unwrap();
    let _registered: Vec<_> = stopwatches.iter().enumerate().map(register).collect();
    let start = Instant::now();
    let waiting: Vec<_> = stopwatches.iter().cloned().map(|s| tokio::spawn(async move { s.expired().await })).collect();
    for waiter in waiting {
        waiter.await.unwrap();
    }
    assert_close(start.elapsed(), s(3));
    let confirmations: Vec<_> = fake.seen().requests.iter().map(|request| request[1]).filter(|ids| *ids > 0).collect();
    assert_eq!(confirmations.iter().sum::<usize>(), 1_000);
    assert!(fake.calls("get").is_empty());
    assert!(confirmations.len() <= 4, "{confirmations:?}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_given_up_after_twice_as_long_each_time_while_a_confirmation_waits() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(3));
    command.until(s(2)).await;
    fake.hold_answers(true);
    command.until(s(10)).await;
    let asked: Vec<_> = fake.calls("confirm").iter().map(|call| call.at.as_millis() / 50).collect();
    // First after 250 ms; then on streams that are at least 2 s old.
    assert!(asked.len() >= 4 && asked.len() <= 5, "{asked:?}");
    fake.hold_answers(false);
    let lasted = command.lasted().await;
    assert!(lasted <= s(13), "{lasted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stopwatch_registered_while_its_thread_is_paused_starts_paused() {
    let fake = Fake::start();
    let controller = connected(&fake).await;
    fake.pause("t");
    sleep(s(20)).await;
    let command = Command::start(&controller, s(3));
    assert!(command.stopwatch.is_paused());
    command.until(s(10)).await;
    assert_eq!(command.stopwatch.elapsed(), s(0));
    fake.resume("t");
    assert_close(command.lasted().await, s(13));
}

#[tokio::test(start_paused = true)]
async fn g3_pauses_before_the_registration_are_not_credited() {
    let fake = Fake::start();
    fake.pause("t");
    sleep(s(3_600)).await;
    fake.resume("t");
    // The first registration of the process, and one when everything is known.
    let controller = StopwatchController::new(fake.client());
    let first = Command::start(&controller, s(3));
    settle().await;
    let second = Command::start(&controller, s(3));
    assert_close(first.lasted().await, s(3));
    assert_close(second.lasted().await, s(3));

    let fresh = StopwatchController::new(fake.client());
    fake.pause("t");
    sleep(s(10)).await;
    let paused = Command::start(&fresh, s(3));
    settle().await;
    assert!(paused.stopwatch.is_paused() && paused.stopwatch.elapsed() <= ms(1));
    paused.until(s(5)).await;
    fake.resume("t");
    assert_close(paused.lasted().await, s(8));
}

#[tokio::test(start_paused = true)]
async fn g3_a_pause_during_a_disconnect_is_credited_after_the_reconnect() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(60));
    command.until(s(10)).await;
    fake.cut();
    command.until(s(15)).await;
    fake.pause("t");
    command.until(s(23)).await;
    fake.resume("t");
    command.until(s(30)).await;
    assert_close(command.stopwatch.elapsed(), s(30));
    fake.mend();
    command.until(s(40)).await;
    assert_close(command.stopwatch.elapsed() - s(30), s(2));
    assert_close(command.stopwatch.remaining().unwrap(), s(28));
    assert_close(command.lasted().await, s(68));
}

#[tokio::test(start_paused = true)]
async fn g3_a_resume_during_a_disconnect_is_charged_after_the_reconnect() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(60));
    command.until(s(10)).await;
    fake.pause("t");
    command.until(s(20)).await;
    fake.cut();
    command.until(s(22)).await;
    fake.resume("t");
    command.until(s(40)).await;
    assert!(command.stopwatch.is_paused());
    fake.mend();
    assert_close(command.lasted().await, s(72));
}

#[tokio::test(start_paused = true)]
async fn g3_a_reconnect_corrects_the_assumption_for_sleeping_waiters() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(100));
    fake.pause("t");
    command.until(s(10)).await;
    fake.cut();
    fake.resume("t");
    command.until(s(10) + GRACE + s(5)).await;
    assert!(!command.stopwatch.is_paused(), "G2: not for ever");
    fake.mend();
    assert_close(command.lasted().await, s(110));
}

#[tokio::test(start_paused = true)]
async fn g3_a_pause_across_a_restart_of_the_server_is_credited() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(3));
    command.until(s(1)).await;
    fake.pause("t");
    for restart in 1..=10 {
        command.until(s(1 + restart)).await;
        fake.drop_connections();
    }
    command.until(s(20)).await;
    fake.resume("t");
    assert_close(command.lasted().await, s(22));
}

#[tokio::test(start_paused = true)]
async fn g3_lost_server_state_does_not_reduce_the_credit() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(10));
    fake.pause("t");
    command.until(s(5)).await;
    fake.cut();
    fake.world(|world| world.forget_everything());
    command.until(s(8)).await;
    fake.mend();
    command.until(s(15)).await;
    assert!(!command.stopwatch.is_paused());
    // It stays paused until the connection is back, or at most one maximum retry delay longer.
    let elapsed = command.stopwatch.elapsed();
    assert!(elapsed <= s(7) && elapsed >= s(1), "{elapsed:?}");
    let rest = s(10) - elapsed;
    fake.pause("t");
    command.until(s(25)).await;
    fake.resume("t");
    assert_close(command.lasted().await, s(25) + rest);
}

#[tokio::test(start_paused = true)]
async fn elapsed_never_decreases_and_reaches_the_limit_at_the_expiry() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(60));
    let mut shown = Duration::ZERO;
    let mut round = 0;
    while !command.expired.is_finished() {
        round += 1;
        match round % 40 {
            5 => fake.cut(),
            10 => drop(fake.pause("t")),
            15 => fake.resume("t"),
            20 => fake.mend(),
            30 => drop(fake.pause("t")),
            35 => fake.resume("t"),
            _ => {}
        }
        sleep(ms(500)).await;
        let elapsed = command.stopwatch.elapsed();
        assert!(elapsed >= shown, "{elapsed:?} after {shown:?}");
        assert_eq!(elapsed + command.stopwatch.remaining().unwrap(), s(60).max(elapsed));
        shown = elapsed;
    }
    assert!(shown >= s(60) && shown <= s(62), "{shown:?}");
}

#[tokio::test(start_paused = true)]
async fn g7_ten_thousand_threads_share_a_stream() {
    let fake = Fake::start();
    let controller = StopwatchController::new(fake.client());
    let stopwatch = || Stopwatch::new(s(3));
    let registered: Vec<_> = (0..10_000)
        .map(|i| {
            let stopwatch = stopwatch();
            (controller.register(&format!("t{i}"), &stopwatch).unwrap(), stopwatch)
        })
        .collect();
    controller.link().wait_for(|link| *link == Link::Connected).await.unwrap();
    assert_eq!(fake.seen().watches, [10_000]);
    fake.pause("t4711");
    settle().await;
    let paused: Vec<_> = registered.iter().filter(|(_, stopwatch)| stopwatch.is_paused()).collect();
    assert_eq!((paused.len(), paused[0].0.thread_id()), (1, "t4711"));
}

#[tokio::test(start_paused = true)]
async fn a_thread_is_followed_for_30_s_after_its_last_registration() {
    let fake = Fake::start();
    let controller = connected(&fake).await;
    for _ in 0..100 {
        sleep(s(1)).await;
        drop(Command::start(&controller, s(3)));
    }
    assert_eq!(fake.seen().watches, [1], "one stream for all commands");
    sleep(s(31)).await;
    assert_eq!(fake.seen().open_watches, 0, "the watch is closed 30 s after the last registration");
    let command = Command::start(&controller, s(3));
    settle().await;
    fake.pause("t");
    settle().await;
    assert!(command.stopwatch.is_paused());
}

#[tokio::test(start_paused = true)]
async fn a_thread_is_forgotten_after_its_only_registration() {
    let fake = Fake::start();
    let controller = StopwatchController::new(fake.client());
    let command = Command::start(&controller, s(3));
    settle().await;
    assert_eq!(fake.seen().open_watches, 1);
    command.expired.abort();
    drop(command);
    sleep(s(31)).await;
    assert_eq!(fake.seen().open_watches, 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_everything_ends_every_task() {
    let fake = Fake::start();
    let controller = connected(&fake).await;
    let command = Command::start(&controller, s(300));
    drop(controller);
    settle().await;
    assert_eq!(fake.seen().open_watches, 1, "a registration keeps the watch");
    command.expired.abort();
    drop(command);
    settle().await;
    assert_eq!(fake.seen().open_watches, 0);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_thread_id_is_refused() {
    let controller = StopwatchController::new(Fake::start().client());
    let error = controller.register("a\nb", &Stopwatch::new(s(3))).unwrap_err();
    assert!(matches!(error, Error::InvalidField { .. }), "{error:?}");
}
