//! What a caller is told while a person is waited for, so that its own timeout can wait too.
use super::{clock::Clock, scope::Context};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use std::{pin::pin, time::Duration};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often is looked whether there is something to tell.
const LOOK: Duration = Duration::from_millis(250);
/// How often is told: well below the timeouts of clients (60 s, some 10 s).
const TELL: Duration = Duration::from_secs(3);

/// Runs `work`, and tells the caller while `clock` stands still, if the caller gave a token for that. A call that waits
/// more than once does so by one clock: what it is told has to rise from one to the next.
pub(super) async fn told<F: Future>(context: &Context, clock: &Clock, work: F) -> F::Output {
    let mut work = pin!(work);
    let Some(token) = context.meta.get_progress_token() else { return work.await };
    let mut telling = pin!(tell(context, clock, token));
    loop {
        tokio::select! {
            biased;
            output = &mut work => return output,
            () = &mut telling => std::future::pending().await,
        }
    }
}

async fn tell(context: &Context, clock: &Clock, token: ProgressToken) {
    let (mut looks, mut next) = (interval(LOOK), Instant::now());
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut since = None;
    loop {
        let now = looks.tick().await;
        if !clock.stopwatch().is_paused() {
            since = None;
            continue;
        }
        let since = *since.get_or_insert(now);
        if now < next {
            continue;
        }
        next = now + TELL;
        let message =
            format!("a person is being asked, for {} s so far: the clock stands still", (now - since).as_secs());
        // Nobody knows the total.
        let seconds = clock.read().wall.as_secs_f64();
        let progress = ProgressNotificationParam::new(token.clone(), seconds).with_message(message);
        if context.peer.notify_progress(progress).await.is_err() {
            return;
        }
    }
}
