//! Commands whose thread is paused before they expire: none is killed during the pause (G1), each is charged correctly
//! (G3), and each expires afterwards (G2).
use super::books::{Books, COMMANDS, HELD, KILLED, WRONG};
use fastrand::Rng;
use pausewatch::client::{Client, GetPauseStateRequest, Release};
use pausewatch::stopwatch::{Stopwatch, StopwatchController};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::time::{sleep, sleep_until, timeout};

/// The time after a release until every process knows of it: longer than any fault lasts, and than the disconnect
/// grace.
const KNOWN: Duration = Duration::from_secs(60);
/// Longer than any fault lasts, so that no hold is lost to a fault.
const TTL: Duration = Duration::from_secs(300);
/// A stopwatch fails if its charge has a larger error than this once it knows of the whole pause. The error is printed.
const WRONG_BY: Duration = Duration::from_millis(20);

/// Runs commands on threads that begin with `name`, until `stop`.
pub(super) struct Commands {
    pub(super) name: String,
    /// The client of the tool that asks.
    pub(super) client: Client,
    /// The controller of the exec server. It stands for another process, so it has its own connection.
    pub(super) controller: StopwatchController,
    pub(super) random: Rng,
    pub(super) books: Arc<Books>,
}

impl Commands {
    pub(super) async fn run(mut self, stop: Arc<AtomicBool>) {
        for number in 1.. {
            if stop.load(SeqCst) {
                return;
            }
            let thread = format!("{} {number}", self.name);
            if let Err((kind, how)) = self.command(&thread).await {
                self.books.fail(kind, format!("{thread}: {how}"));
            }
            self.books.count(COMMANDS, 1);
        }
    }

    async fn command(&mut self, thread: &str) -> Result<(), (&'static str, String)> {
        let wrong = |how: String| (WRONG, how);
        let limit = Duration::from_millis(500 + self.random.u64(..2_500));
        let lead = Duration::from_millis(20 + self.random.u64(..2_000)).min(limit);
        // The commands start between these two times.
        let start = Instant::now();
        let (stopwatch, unlimited) = (Stopwatch::new(limit), Stopwatch::unlimited());
        let started = Instant::now();
        let register =
            |stopwatch| self.controller.register(thread, stopwatch).map_err(|error| wrong(error.to_string()));
        let _registered = (register(&stopwatch)?, register(&unlimited)?);
        let expired = tokio::spawn({
            let stopwatch = stopwatch.clone();
            async move {
                stopwatch.expired().await;
                Instant::now()
            }
        });
        sleep_until((start + limit - lead).into()).await;
        let hold = match self.client.hold(thread).ttl(TTL).open().await {
            Ok(hold) => hold,
            // No answer within the whole deadline: whether it is open is unknown, and its lease ends it.
            Err(error) if error.is_transient() => return Ok(()),
            Err(error) => return Err(wrong(format!("{error:?}"))),
        };
        let in_time = Instant::now() < start + limit;
        sleep(Duration::from_millis(100 + self.random.u64(..5_000))).await;
        // Checked before the release is sent, since its answer may be lost.
        if in_time && expired.is_finished() {
            return Err((KILLED, format!("though it was held {lead:?} before its time of {limit:?} ran out")));
        }
        let release = loop {
            match hold.release().await {
                Err(error) if error.is_transient() => {}
                release => break release,
            }
        };
        if !matches!(release, Ok(Release::Closed { .. })) {
            return Err(wrong(format!("the release of a hold that was renewed: {release:?}")));
        }
        self.books.count(HELD, usize::from(in_time));
        let paused = self.paused(thread).await.map_err(wrong)?;
        self.charged(&unlimited, [start, started], paused).await.map_err(wrong)?;
        let Ok(Ok(end)) = timeout(KNOWN, expired).await else {
            return Err(wrong("it has not expired though its thread runs".into()));
        };
        let early = limit.saturating_sub((end - start).saturating_sub(paused));
        if in_time && early > WRONG_BY {
            return Err((KILLED, format!("{early:?} too early, of {limit:?}")));
        }
        Ok(())
    }

    async fn paused(&self, thread: &str) -> Result<Duration, String> {
        loop {
            match self.client.get_pause_state(GetPauseStateRequest { thread_id: thread.to_owned() }).await {
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(format!("{error:?}")),
                Ok(answer) => {
                    let total = answer.pause_state.and_then(|state| state.paused_total).unwrap_or_default();
                    return total.try_into().map_err(|error| format!("{error}"));
                }
            }
        }
    }

    /// Waits until the exec server knows of the whole pause, and checks what it charges. `started`: times before and
    /// after the start of the stopwatch.
    async fn charged(&self, stopwatch: &Stopwatch, started: [Instant; 2], paused: Duration) -> Result<(), String> {
        let (asked, mut least_wrong) = (Instant::now(), Duration::MAX);
        loop {
            let before = started[1].elapsed();
            let (charged, is_paused) = (stopwatch.elapsed(), stopwatch.is_paused());
            let after = started[0].elapsed();
            let least = before.saturating_sub(paused);
            let wrong = least.saturating_sub(charged).max(charged.saturating_sub(after.saturating_sub(paused)));
            if !is_paused {
                least_wrong = least_wrong.min(wrong);
            }
            // It is exact as soon as it knows of the pause. But the elapsed time never decreases: after a late credit,
            // it stands still until it is right.
            let is_exact = wrong < Duration::from_millis(1);
            if least_wrong <= WRONG_BY && (is_exact || asked.elapsed() > Duration::from_secs(20)) {
                self.books.charged_wrongly_by(least_wrong);
                return Ok(());
            }
            if asked.elapsed() > KNOWN {
                return Err(format!(
                    "charged {charged:?} of {after:?}, {paused:?} of them paused (paused: {is_paused})"
                ));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}
