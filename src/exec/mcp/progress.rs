//! Progress notifications while a person is being asked, so that the client can extend its own timeout.
use super::{clock::Clock, scope::Context};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// The interval between two checks whether the clock is paused.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The interval between two notifications: well below the timeouts of clients (60 s, some 10 s).
const NOTIFY_INTERVAL: Duration = Duration::from_secs(3);

/// Runs `work`; while `clock` is paused, sends progress notifications if the client asked for them.
///
/// A call that waits more than once passes the same clock each time, because the progress values must rise.
pub(super) async fn notify_during<F: Future>(context: &Context, clock: &Clock, work: F) -> F::Output {
    let Some(token) = context.meta.get_progress_token() else { return work.await };
    let notifying = async {
        notify(context, clock, token).await;
        std::future::pending().await
    };
    tokio::select! {
        biased;
        output = work => output,
        never = notifying => never,
    }
}

/// Returns when the client cannot be notified any more.
async fn notify(context: &Context, clock: &Clock, token: ProgressToken) {
    let (mut checks, mut next) = (interval(CHECK_INTERVAL), Instant::now());
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut paused_since = None;
    loop {
        let now = checks.tick().await;
        if !clock.stopwatch().is_paused() {
            paused_since = None;
            continue;
        }
        let paused_since = *paused_since.get_or_insert(now);
        if now < next {
            continue;
        }
        next = now + NOTIFY_INTERVAL;
        let seconds = (now - paused_since).as_secs();
        let message = format!("a person is being asked, for {seconds} s so far: the time limit is paused");
        // The total is unknown.
        let progress = ProgressNotificationParam::new(token.clone(), clock.read().wall.as_secs_f64());
        if context.peer.notify_progress(progress.with_message(message)).await.is_err() {
            return;
        }
    }
}
