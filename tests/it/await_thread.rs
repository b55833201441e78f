//! Stopwatches that also stop while other threads are paused.
use crate::fake::{Fake, settle};
use pausewatch::client::Error;
use pausewatch::stopwatch::{Link, Registration, Stopwatch, StopwatchController};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A stopwatch under thread "t".
struct Command {
    stopwatch: Stopwatch,
    registered: Registration,
    start: Instant,
}

impl Command {
    async fn start(fake: &Fake, limit: u64) -> Self {
        let controller = StopwatchController::new(fake.client());
        Self::with(&controller, "t", limit).await
    }

    async fn with(controller: &StopwatchController, thread_id: &str, limit: u64) -> Self {
        let (stopwatch, start) = (Stopwatch::new(s(limit)), Instant::now());
        let registered = controller.register(thread_id, &stopwatch).unwrap();
        controller.link().wait_for(|link| *link == Link::Connected).await.unwrap();
        Self { stopwatch, registered, start }
    }

    async fn until(&self, seconds: u64) {
        sleep_until(self.start + s(seconds)).await;
        settle().await;
    }

    /// A few milliseconds are allowed for each message.
    #[track_caller]
    fn assert_charged(&self, expected: u64) {
        let charged = self.stopwatch.elapsed();
        assert!(
            charged + ms(20) >= s(expected) && charged <= s(expected) + ms(20),
            "{charged:?}, expected {expected} s"
        );
    }

    async fn lasted(&self) -> Duration {
        self.stopwatch.expired().await;
        self.start.elapsed()
    }
}

/// G1, G3: exactly the union is credited: the pauses overlap from 4 s to 6 s.
#[tokio::test(start_paused = true)]
async fn g3_time_in_which_any_of_the_threads_is_paused_is_not_charged_and_counts_once() {
    let fake = Fake::start();
    let command = Command::start(&fake, 10).await;
    let _awaited =
        [command.registered.await_thread("child").unwrap(), command.registered.await_thread("other").unwrap()];
    command.until(1).await;
    for (at, thread, opens, charged) in
        [(2, "t", true, 2), (4, "child", true, 2), (6, "t", false, 2), (8, "child", false, 2), (12, "other", true, 6)]
    {
        command.until(at).await;
        if opens {
            fake.pause(thread);
        } else {
            fake.resume(thread);
        }
        settle().await;
        command.assert_charged(charged);
        assert_eq!(command.stopwatch.is_paused(), (2..8).contains(&at) || at == 12, "at {at}");
    }
    command.until(20).await;
    command.assert_charged(6);
    fake.resume("other");
    let lasted = command.lasted().await;
    assert!(lasted >= s(24) && lasted < s(24) + ms(100), "{lasted:?}");
}

/// G1. Without the query of the child's state, this stopwatch would expire: nothing else reports the pause.
#[tokio::test(start_paused = true)]
async fn g1_the_coordinator_is_asked_of_every_thread_before_an_expiry() {
    let fake = Fake::start();
    let command = Command::start(&fake, 3).await;
    let _awaited = command.registered.await_thread("child").unwrap();
    sleep_until(command.start + s(1)).await;
    // The watch is silent: only a query finds the pause.
    fake.script().mute = true;
    fake.pause("child");
    assert!(timeout(s(60), command.stopwatch.expired()).await.is_err(), "its child is paused");
    fake.resume("child");
    command.lasted().await;
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_thread_are_counted_and_end_with_the_last() {
    let fake = Fake::start();
    let command = Command::start(&fake, 1_000).await;
    let first = command.registered.await_thread("child").unwrap();
    let second = command.registered.await_thread("child").unwrap();
    command.until(1).await;
    fake.pause("child");
    command.until(5).await;
    drop(first);
    command.until(9).await;
    command.assert_charged(1);
    drop(second);
    assert!(!command.stopwatch.is_paused());
    command.until(15).await;
    command.assert_charged(7);
    // A child that is already paused, and a registration that ends before the wait does.
    let third = command.registered.await_thread("child").unwrap();
    command.until(20).await;
    command.assert_charged(7);
    let Command { stopwatch, registered, start } = command;
    drop(registered);
    assert!(!stopwatch.is_paused());
    sleep_until(start + s(25)).await;
    let charged = stopwatch.elapsed();
    assert!(charged + ms(50) >= s(12) && charged <= s(12) + ms(50), "{charged:?}");
    drop(third);
    assert_eq!(fake.count("child"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_thread_does_not_wait_for_itself_and_a_cycle_is_allowed() {
    let fake = Fake::start();
    let controller = StopwatchController::new(fake.client());
    let (one, two) = (Command::with(&controller, "one", 5).await, Command::with(&controller, "two", 5).await);
    let itself = one.registered.await_thread("one");
    assert!(matches!(&itself, Err(Error::InvalidField { field, .. }) if field == "thread_id"), "{itself:?}");
    assert!(matches!(one.registered.await_thread(""), Err(Error::InvalidField { .. })));
    let _cycle = [one.registered.await_thread("two").unwrap(), two.registered.await_thread("one").unwrap()];
    one.until(1).await;
    fake.pause("two");
    one.until(100).await;
    one.assert_charged(1);
    two.assert_charged(1);
    fake.resume("two");
    let lasted = (one.lasted().await, two.lasted().await);
    assert!(lasted.0 >= s(104) && lasted.1 < s(105), "{lasted:?}");
}

/// A child whose lease ends counts as answered; a child that never existed is never paused.
#[tokio::test(start_paused = true)]
async fn g2_a_child_that_dies_or_never_existed_freezes_nobody() {
    let fake = Fake::start();
    let command = Command::start(&fake, 3).await;
    let _awaited =
        [command.registered.await_thread("child").unwrap(), command.registered.await_thread("nobody").unwrap()];
    fake.world(|world| world.open("child", Some(s(30))));
    let lasted = command.lasted().await;
    assert!(lasted >= s(32) && lasted < s(35), "{lasted:?}");
}

/// G1, G2: within a gap the sum of the paused times is credited, up to the length of the gap. Here they overlapped, but
/// the client cannot know that.
#[tokio::test(start_paused = true)]
async fn g1_pauses_within_a_gap_are_credited_by_their_sum() {
    let fake = Fake::start();
    let command = Command::start(&fake, 1_000).await;
    let _awaited = command.registered.await_thread("child").unwrap();
    command.until(10).await;
    fake.cut();
    command.until(20).await;
    fake.pause("t");
    fake.pause("child");
    command.until(30).await;
    fake.resume("t");
    fake.resume("child");
    command.until(60).await;
    fake.mend();
    command.until(100).await;
    // Each was paused for 10 s, within a gap of more than 50 s.
    command.assert_charged(80);
    // From here on it is exact again.
    fake.pause("t");
    command.until(110).await;
    fake.pause("child");
    command.until(120).await;
    command.assert_charged(80);
}

/// The pauses of its own thread before the first wait are credited too; otherwise that time would be charged.
#[tokio::test(start_paused = true)]
async fn g3_a_pause_within_a_gap_is_credited_from_before_the_first_wait() {
    let fake = Fake::start();
    let command = Command::start(&fake, 1_000).await;
    command.until(10).await;
    fake.cut();
    command.until(12).await;
    fake.pause("t");
    command.until(38).await;
    let _awaited = command.registered.await_thread("child").unwrap();
    command.until(39).await;
    fake.resume("t");
    fake.mend();
    command.until(60).await;
    command.assert_charged(60 - 27);
    // From here on it is exact again.
    fake.pause("child");
    command.until(65).await;
    fake.pause("t");
    command.until(70).await;
    command.assert_charged(60 - 27);
}

#[tokio::test(start_paused = true)]
async fn g2_children_that_were_paused_when_the_link_broke_do_not_freeze_for_ever() {
    let fake = Fake::start();
    let command = Command::start(&fake, 3).await;
    let _awaited = command.registered.await_thread("child").unwrap();
    command.until(1).await;
    fake.pause("child");
    command.until(5).await;
    fake.cut();
    let lasted = command.lasted().await;
    assert!(lasted >= s(35) && lasted <= s(5 + 30 + 3), "{lasted:?}");
}
