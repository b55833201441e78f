//! G1, G3, and G2 as exec servers see it: what stopwatches show, and when they expire.
use super::State;
use crate::run::TICK;
use std::time::Duration;

/// What G3 allows.
const EXACT: Duration = Duration::from_millis(5);
/// A dead connection is noticed after 15 s, give or take the grain of timers.
const NOTICED_AFTER: Duration = Duration::from_secs(16);
/// Once calls get through, a question that was put before is over after its deadline, and the next one is put.
const ASKED_WITHIN: Duration = Duration::from_secs(8);

/// One stopwatch.
#[derive(Debug)]
pub(super) struct Stopwatch {
    host: String,
    thread: String,
    limit: Duration,
    started: Duration,
    /// Since when its controller says that it is connected, and is.
    connected_since: Option<Duration>,
    /// What pauses it may wrongly have been credited or charged, since it began when nothing was known: the time until
    /// something was.
    unknown: Option<Duration>,
    /// What it showed when it was cut off; it does not go back.
    shown: Duration,
    running: bool,
}

impl State {
    pub(super) fn stopwatch_started(&mut self, host: &str, thread: &str, limit: Duration) -> usize {
        let started = self.now();
        self.threads.entry(thread.to_owned()).or_default();
        let (host, thread) = (host.to_owned(), thread.to_owned());
        let (connected_since, unknown, shown, running) = (None, None, Duration::ZERO, true);
        self.stopwatches.push(Stopwatch { host, thread, limit, started, connected_since, unknown, shown, running });
        self.stopwatches.len() - 1
    }

    pub(super) fn stopwatches_gone(&mut self, host: &str) {
        self.stopwatches.iter_mut().filter(|one| one.host == host).for_each(|one| one.running = false);
    }

    /// Wall time less the time its thread was paused, by the books.
    fn charged(&self, one: &Stopwatch) -> Duration {
        let now = self.now();
        (now - one.started).saturating_sub(self.threads[&one.thread].paused_between(one.started, now))
    }

    /// How far what is shown may be off: what G3 allows, the way of a state, and the grain of the simulation.
    fn tolerance(&self) -> Duration {
        EXACT + 3 * self.latency + 2 * TICK
    }

    pub(super) fn stopwatch_seen(&mut self, number: usize, elapsed: Duration, paused: bool, connected: bool) {
        let now = self.now();
        let tolerance = self.tolerance();
        let charged = self.charged(&self.stopwatches[number]);
        let one = &mut self.stopwatches[number];
        let host = self.reach.host(&one.host);
        let (honest, unfit_since) = (host.is_honest(now), host.unfit_since());
        let books = &self.threads[&one.thread];
        let since = match honest && connected {
            true => *one.connected_since.get_or_insert(now),
            false => {
                one.connected_since = None;
                one.shown = one.shown.max(elapsed);
                // G2: what cannot be confirmed ends.
                if paused && let (Some(running), Some(unfit)) = (books.running_since(), unfit_since) {
                    let frozen = now.saturating_sub(running.max(unfit).max(one.started));
                    if frozen > NOTICED_AFTER + self.grace + Duration::from_secs(1) {
                        let what = format!("stopwatch {number} of {} is frozen for {frozen:?}, cut off", one.thread);
                        self.violation("G2", what);
                    }
                }
                return;
            }
        };
        let settled = since.max(one.started) + Duration::from_millis(500);
        if now < settled {
            one.shown = one.shown.max(elapsed);
            return;
        }
        let unknown = *one.unknown.get_or_insert(if since <= one.started + 4 * TICK {
            Duration::ZERO
        } else {
            now - one.started
        });
        let slack = tolerance + unknown;
        self.course.count("looks at a stopwatch that is connected");
        let one = &self.stopwatches[number];
        if elapsed + slack < charged || elapsed > (charged + slack).max(one.shown + tolerance) {
            let what = format!("stopwatch {number} of {} shows {elapsed:?}, is charged {charged:?}", one.thread);
            return self.violation("G3", what);
        }
        let lag = Duration::from_millis(200) + 8 * self.latency;
        let running = books.running_since().is_some_and(|since| now - since > lag);
        let is_paused = books.paused_since().is_some_and(|since| now - since > lag);
        if (paused && running) || (!paused && is_paused) {
            let what = format!("stopwatch {number} of {} is paused: {paused}, its thread is not so", one.thread);
            self.violation(if paused { "G2" } else { "G1" }, what);
        }
    }

    pub(super) fn stopwatch_ended(&mut self, number: usize) {
        self.stopwatches[number].running = false;
        self.course.count("commands that ended in time");
    }

    pub(super) fn stopwatch_expired(&mut self, number: usize) {
        let now = self.now();
        self.stopwatches[number].running = false;
        let one = &self.stopwatches[number];
        let charged = self.charged(one);
        let (thread, limit) = (one.thread.clone(), one.limit);
        self.line(format!("stopwatch {number} of {thread} expires: limit {limit:?}, charged {charged:?}"));
        self.course.count("stopwatches that expired");
        let one = &self.stopwatches[number];
        let unfit_since = self.reach.hosts[&one.host].unfit_since();
        // Cut off for the whole of its grace, it may go by what it knows.
        let slack = Duration::from_millis(20);
        if unfit_since.is_some_and(|since| now.saturating_sub(since.max(one.started)) + slack >= self.grace) {
            return self.course.count("stopwatches that expired cut off");
        }
        let unknown = one.unknown.unwrap_or(now - one.started);
        if charged + self.tolerance() + unknown < limit {
            let what = format!("stopwatch {number} of {thread} expired at {charged:?} of {limit:?}");
            return self.violation("G1", what);
        }
        let paused_since = self.threads[&thread].paused_since();
        if paused_since.is_some_and(|since| now - since > Duration::from_millis(50) + 4 * self.latency) {
            let what = format!("stopwatch {number} of {thread} expired, paused since {paused_since:?}");
            self.violation("G1", what);
        }
    }

    /// Whether those whose time is out have expired.
    pub(super) fn look_at_stopwatches(&mut self) {
        let now = self.now();
        let late = |(number, one): (usize, &Stopwatch)| {
            let fit_for = self.reach.hosts.get(&one.host)?.fit_for(now)?;
            let due = one.limit + self.tolerance() + one.unknown.unwrap_or(now - one.started) + Duration::from_secs(1);
            let late = one.running && fit_for > ASKED_WITHIN && self.charged(one) > due;
            late.then(|| format!("stopwatch {number} of {} does not expire: {:?}", one.thread, self.charged(one)))
        };
        let problems: Vec<_> = self.stopwatches.iter().enumerate().filter_map(late).collect();
        problems.into_iter().for_each(|problem| self.violation("G2", problem));
    }
}
