//! Without a connection to the coordinator: what waits, for how long, and what is credited afterwards.
use super::*;
use tonic::Status;

#[tokio::test(start_paused = true)]
async fn g1_a_stopwatch_that_runs_out_while_disconnected_waits_for_the_connection() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(3));
    command.until(s(1)).await;
    fake.cut();
    fake.pause("t");
    command.until(s(25)).await;
    assert!(!command.expired.is_finished());
    fake.mend();
    command.until(s(100)).await;
    assert!(!command.expired.is_finished());
    assert_close(command.stopwatch.elapsed(), s(1));
    fake.resume("t");
    assert_close(command.lasted().await, s(102));
}

#[tokio::test(start_paused = true)]
async fn g1_waiting_in_small_steps_asks_again_too() {
    let fake = Fake::start();
    let controller = StopwatchController::new(fake.client());
    let (stopwatch, start) = (Stopwatch::new(s(3)), Instant::now());
    let _registered = controller.register("t", &stopwatch).unwrap();
    fake.pause("t");
    fake.cut();
    let mut mended = false;
    while start.elapsed() < s(50) {
        // Like a program that checks other things now and then.
        let waited = timeout(ms(100), stopwatch.expired()).await;
        assert!(waited.is_err(), "killed at {:?}", start.elapsed());
        if start.elapsed() > s(12) && !std::mem::replace(&mut mended, true) {
            fake.mend();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn g2_a_stopwatch_that_runs_out_while_disconnected_waits_at_most_the_grace() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(3));
    command.until(s(1)).await;
    fake.cut();
    assert_close(command.lasted().await, s(3) + GRACE);
}

#[tokio::test(start_paused = true)]
async fn g2_a_frozen_network_is_no_reason_to_wait_longer() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(3));
    command.until(s(1)).await;
    fake.freeze(true);
    assert_close(command.lasted().await, s(3) + GRACE);
}

#[tokio::test(start_paused = true)]
async fn g2_a_thread_that_was_paused_when_the_link_broke_does_not_freeze_for_ever() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(3));
    command.until(s(1)).await;
    fake.pause("t");
    command.until(s(5)).await;
    fake.cut();
    // It is paused for one grace period more, then it has its 2 s. Nothing of the grace is left to wait for an answer.
    assert_close(command.lasted().await, s(5) + GRACE + s(2));
}

#[tokio::test(start_paused = true)]
async fn g2_a_pause_in_a_network_that_froze_counts_for_one_grace_after_the_last_message() {
    // The lost connection is noticed 30 s after the last message; then the shorter grace has long ended, and 2 s are
    // left for a query.
    for (grace, after_last_message) in [(s(5), s(30) + s(2)), (GRACE, GRACE + s(2))] {
        let fake = Fake::start();
        let controller = StopwatchController::with_disconnect_grace(fake.client(), grace);
        let command = Command::start(&controller, s(3));
        command.until(s(1)).await;
        fake.pause("t");
        command.until(s(2)).await;
        fake.freeze(true);
        // A stream that is being opened at that moment has 250 ms for its answer.
        let (lasted, expected) = (command.lasted().await, s(1) + after_last_message);
        assert!(lasted >= expected && lasted <= expected + ms(255), "{grace:?}: {lasted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn g1_a_dead_link_that_is_found_late_leaves_time_to_ask_on_a_new_stream() {
    let fake = Fake::start();
    let controller = StopwatchController::with_disconnect_grace(fake.client(), s(1));
    let command = Command::start(&controller, s(3));
    command.until(s(1)).await;
    fake.pause("t");
    command.until(s(2)).await;
    fake.freeze(true);
    // As if the process had been stopped for that time.
    controller.link().wait_for(|link| link.reason().is_some()).await.unwrap();
    fake.cut();
    sleep(s(1)).await;
    fake.freeze(false);
    fake.mend();
    command.until(s(100)).await;
    assert!(command.stopwatch.is_paused() && !command.expired.is_finished());
}

#[tokio::test(start_paused = true)]
async fn g2_a_thread_that_the_coordinator_forbids_has_its_limit_and_the_grace() {
    let fake = Fake::start();
    fake.script().refuse_watch_of = Some("t".to_owned());
    let controller = StopwatchController::new(fake.client());
    let (forbidden, other) = (Command::start(&controller, s(3)), Stopwatch::new(s(3)));
    let _registered = controller.register("other", &other).unwrap();
    fake.pause("other");
    assert_close(forbidden.lasted().await, s(3) + GRACE);
    assert!(other.is_paused(), "the other stopwatch must stay paused");
    assert_eq!(fake.seen().watches.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_thread_is_no_loss_of_the_link_and_hides_none() {
    let fake = Fake::start();
    fake.script().refuse_watch_of = Some("t".to_owned());
    let controller = StopwatchController::new(fake.client());
    let _forbidden = Command::start(&controller, s(60));
    let mut link = controller.link();
    for _ in 0..2 {
        let connected = link.wait_for(|link| *link == Link::Connected);
        timeout(s(20), connected).await.expect("it connects").unwrap();
        fake.cut();
        let lost = link.wait_for(|link| link.reason().is_some());
        let lost = timeout(s(1), lost).await.expect("the loss is reported").unwrap().clone();
        assert!(matches!(&lost, Link::Disconnected { since, .. } if since.elapsed() < s(1)), "{lost:?}");
        fake.mend();
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_coordinator_the_limit_holds_plus_at_most_the_grace() {
    for grace in [s(0), ms(100), s(2), GRACE] {
        let fake = Fake::start();
        fake.cut();
        let controller = StopwatchController::with_disconnect_grace(fake.client(), grace);
        let command = Command::start(&controller, s(3));
        let lasted = command.lasted().await;
        assert!(lasted >= s(3) && lasted <= s(3) + grace.max(ms(250)) + ms(5), "{grace:?}: {lasted:?}");
        assert!(controller.link().borrow().reason().is_some_and(|why| why.contains("refused")));
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_in_small_steps_does_not_renew_the_grace() {
    let fake = Fake::start();
    fake.cut();
    let controller = StopwatchController::new(fake.client());
    let (stopwatch, start) = (Stopwatch::new(s(3)), Instant::now());
    let _registered = controller.register("t", &stopwatch).unwrap();
    while timeout(ms(70), stopwatch.expired()).await.is_err() {}
    assert_close(start.elapsed(), s(3) + GRACE);
}

#[tokio::test(start_paused = true)]
async fn a_stopwatch_registered_while_disconnected_is_credited_from_its_own_start() {
    let fake = Fake::start();
    let controller = connected(&fake).await;
    let old = Command::start(&controller, s(300));
    fake.cut();
    fake.pause("t");
    old.until(s(20)).await;
    let new = Command::start(&controller, s(300));
    old.until(s(25)).await;
    fake.resume("t");
    fake.mend();
    old.until(s(60)).await;
    assert_close(old.stopwatch.elapsed(), s(35));
    // 5 s of the pause are its own. It cannot know that the thread was not paused before the connection was back.
    let elapsed = new.stopwatch.elapsed();
    assert!(elapsed <= s(35) && elapsed >= s(35) - ms(6_100), "{elapsed:?}");
    // If it got its share of the whole pause, every second would add to its credit.
    new.until(s(100)).await;
    assert_close(new.stopwatch.elapsed(), elapsed + s(60));
}

#[tokio::test(start_paused = true)]
async fn g1_a_stopwatch_registered_while_disconnected_is_not_charged_earlier_assumptions() {
    let fake = Fake::start();
    let controller = connected(&fake).await;
    fake.pause("t");
    let old = Command::start(&controller, s(300));
    old.until(s(1)).await;
    fake.cut();
    fake.resume("t");
    // Up to here it assumes a pause, which in truth lasted 1 s.
    old.until(s(20)).await;
    let new = Command::start(&controller, s(10));
    old.until(s(21)).await;
    fake.mend();
    assert_close(new.lasted().await, s(10));
    assert!(old.stopwatch.elapsed() >= s(29), "the time that was not paused is charged: {:?}", old.stopwatch.elapsed());
}

#[tokio::test(start_paused = true)]
async fn g1_a_stopwatch_registered_on_a_dead_connection_is_not_charged_earlier_assumptions() {
    let fake = Fake::start();
    let controller = connected(&fake).await;
    fake.pause("t");
    let old = Command::start(&controller, s(300));
    old.until(s(1)).await;
    // The connection is lost without notice.
    fake.freeze(true);
    fake.resume("t");
    old.until(s(9)).await;
    let new = Command::start(&controller, s(5));
    old.until(s(10)).await;
    fake.drop_connections();
    fake.freeze(false);
    let lasted = new.lasted().await;
    assert!(lasted >= s(5), "it got only {lasted:?} of its 5 s");
}

#[tokio::test(start_paused = true)]
async fn g2_streams_that_fail_at_once_are_opened_again_now_and_then_for_the_grace() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(3));
    command.until(s(1)).await;
    fake.script().refuse = vec![Status::internal("broken"); 10_000];
    fake.drop_connections();
    assert_close(command.lasted().await, s(3) + GRACE);
    // Each retry after 100 to 200 ms.
    let opened = fake.calls("watch").len();
    assert!((140..=320).contains(&opened), "{opened} streams in {GRACE:?}");
    // The stopwatch has ended: nothing is urgent any more.
    sleep(s(60)).await;
    assert!(fake.calls("watch").len() <= opened + 25, "{} streams", fake.calls("watch").len());
}

#[tokio::test(start_paused = true)]
async fn g1_a_coordinator_that_is_back_is_asked_within_200_ms() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(3));
    command.until(s(1)).await;
    fake.cut();
    fake.pause("t");
    // By then, the retry delays are long.
    command.until(s(20)).await;
    fake.mend();
    command.until(s(20) + ms(220)).await;
    assert!(command.stopwatch.is_paused());
    fake.resume("t");
    assert!(!command.expired.is_finished());
}

#[tokio::test(start_paused = true)]
async fn g1_without_any_grace_a_question_still_has_time_for_its_answer() {
    let fake = Fake::start();
    let controller = StopwatchController::with_disconnect_grace(fake.client(), s(0));
    let commands = [s(1), s(1)].map(|limit| Command::start(&controller, limit));
    controller.link().wait_for(|link| *link == Link::Connected).await.unwrap();
    fake.script().mute = true;
    fake.hold_answers(true);
    fake.pause("t");
    commands[0].until(ms(1_200)).await;
    fake.hold_answers(false);
    commands[0].until(s(9)).await;
    assert!(commands.iter().all(|command| !command.expired.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_that_a_limit_delays_is_not_a_silent_stream() {
    let fake = Fake::start();
    let command = Command::start(&connected(&fake).await, s(3));
    command.until(s(2)).await;
    fake.script().limit_requests = 1;
    assert_close(command.lasted().await, s(4));
    assert_eq!(fake.seen().watches.len(), 1, "the stream stays open");
    assert_eq!(fake.calls("confirm").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_link_tells_since_when_it_is_lost_and_when_the_grace_is_spent() {
    let fake = Fake::start();
    let controller = connected(&fake).await;
    let stopwatch = Stopwatch::unlimited();
    let _registered = controller.register("t", &stopwatch).unwrap();
    let mut link = controller.link();
    sleep(s(1)).await;
    let cut = Instant::now();
    fake.cut();
    let lost = link.wait_for(|link| *link != Link::Connected).await.unwrap().clone();
    let Link::Disconnected { since, reason } = lost else { panic!("{lost:?}") };
    assert_close(since - cut, s(0));
    link.changed().await.unwrap();
    assert_eq!(*link.borrow(), Link::GraceSpent { since, reason });
    assert_close(cut.elapsed(), GRACE);
    fake.mend();
    link.wait_for(|link| *link == Link::Connected).await.unwrap();
    fake.cut();
    link.wait_for(|link| matches!(link, Link::Disconnected { .. })).await.unwrap();
    fake.mend();
    link.wait_for(|link| *link == Link::Connected).await.unwrap();
    controller.close();
    assert_eq!(*link.borrow(), Link::Closed);
    fake.cut();
    sleep(2 * GRACE).await;
    assert_eq!(*link.borrow(), Link::Closed);
}
