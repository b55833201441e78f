//! G1, G3, and G2 as exec servers see it: what stopwatches show, and when they expire.
use super::State;
use super::truth::Thread;
use crate::exec::NEVER;
use crate::run::TICK;
use std::time::Duration;

/// The error that G3 allows.
const EXACT: Duration = Duration::from_millis(5);
/// A dead connection is detected after 15 s, plus the resolution of timers.
const NOTICED_AFTER: Duration = Duration::from_secs(16);
/// Once calls get through, an earlier query ends at its deadline, and the next one is sent.
const ASKED_WITHIN: Duration = Duration::from_secs(8);

/// One stopwatch.
#[derive(Debug)]
pub(super) struct Stopwatch {
    host: String,
    /// Its own thread, then those that it waits for.
    threads: Vec<String>,
    limit: Duration,
    max_wall: Option<Duration>,
    started: Duration,
    /// The time since which its controller reports a connection, and has one.
    connected_since: Option<Duration>,
    /// The pause time that it may have been wrongly credited or charged at its start: the time until the first state
    /// was known.
    unknown: Option<Duration>,
    /// The elapsed time that it showed when its connection was lost; it does not decrease.
    shown: Duration,
    running: bool,
    /// The last time at which everything was known, and the time since which something is unknown.
    known_at: Duration,
    gap: Option<Duration>,
    /// The time that it may have been credited too much in gaps: with several threads, it is unknown which pauses
    /// overlapped.
    overlaps: Duration,
}

/// The maximum delay of a timer.
const LATE: Duration = Duration::from_millis(20);

impl State {
    pub(super) fn stopwatch_started(
        &mut self,
        host: &str,
        threads: Vec<String>,
        limit: Duration,
        max_wall: Option<Duration>,
    ) -> usize {
        let started = self.now();
        if threads.len() > 1 {
            self.course.count("commands that wait for other threads");
        }
        if threads.iter().any(|thread| thread == NEVER) {
            self.course.count("commands that wait for a thread that never was");
        }
        self.stopwatches.push(Stopwatch {
            host: host.to_owned(),
            threads,
            limit,
            max_wall,
            started,
            connected_since: None,
            unknown: None,
            shown: Duration::ZERO,
            running: true,
            known_at: started,
            gap: Some(started),
            overlaps: Duration::ZERO,
        });
        self.stopwatches.len() - 1
    }

    /// Whether the command of another thread waits for this thread.
    pub(super) fn is_awaited(&self, thread: &str) -> bool {
        self.stopwatches.iter().any(|one| one.running && one.threads.iter().skip(1).any(|awaited| awaited == thread))
    }

    /// The books of its threads. A thread that never existed has none.
    fn books(&self, one: &Stopwatch) -> Vec<&Thread> {
        one.threads.iter().filter_map(|thread| self.threads.get(thread)).collect()
    }

    /// The time since which none of its threads is paused.
    fn running_since(&self, one: &Stopwatch) -> Option<Duration> {
        let since: Option<Vec<_>> = self.books(one).into_iter().map(Thread::running_since).collect();
        Some(since?.into_iter().max().unwrap_or_default())
    }

    /// The time since which one of its threads is paused.
    fn paused_since(&self, one: &Stopwatch) -> Option<Duration> {
        self.books(one).into_iter().filter_map(Thread::paused_since).min()
    }

    /// The maximum excess credit of a stopwatch with several threads: in a gap, the sum of the pauses counts, up to the
    /// length of the gap; while connected, each change is known only when its message arrives.
    fn too_much(&self, one: &Stopwatch) -> Duration {
        if one.threads.len() == 1 {
            return Duration::ZERO;
        }
        let books = self.books(one);
        let changes: u32 = books.iter().map(|thread| thread.changes_since(one.started)).sum();
        let gap = one.gap.map(|from| self.overlap(one, from)).unwrap_or_default();
        one.overlaps + gap + changes * (self.latency + TICK)
    }

    /// By how much the sum of the pauses since `from` exceeds the time in which any was open, up to the time that has
    /// passed.
    fn overlap(&self, one: &Stopwatch, from: Duration) -> Duration {
        let (now, books) = (self.now(), self.books(one));
        let sum: Duration = books.iter().map(|thread| thread.paused_between(from, now)).sum();
        sum.min(now - from).saturating_sub(Thread::union_between(&books, from, now))
    }

    pub(super) fn stopwatches_gone(&mut self, host: &str) {
        self.stopwatches.iter_mut().filter(|one| one.host == host).for_each(|one| one.running = false);
    }

    /// The wall time minus the time in which any of its threads was paused, by the books.
    fn charged(&self, one: &Stopwatch) -> Duration {
        let now = self.now();
        (now - one.started).saturating_sub(Thread::union_between(&self.books(one), one.started, now))
    }

    /// The maximum error of the time that it shows: what G3 allows, the delay of a state, and the resolution of the
    /// simulation.
    fn tolerance(&self) -> Duration {
        EXACT + 3 * self.latency + 2 * TICK
    }

    pub(super) fn stopwatch_seen(&mut self, number: usize, elapsed: Duration, paused: bool, connected: bool) {
        let now = self.now();
        let tolerance = self.tolerance();
        let one = &self.stopwatches[number];
        let (charged, name) = (self.charged(one), one.threads.join("+"));
        let (running_since, paused_since) = (self.running_since(one), self.paused_since(one));
        let one = &mut self.stopwatches[number];
        let host = self.reach.host(&one.host);
        let (honest, unfit_since) = (host.is_honest(now), host.unfit_since());
        let since = match honest && connected {
            true => *one.connected_since.get_or_insert(now),
            false => {
                one.connected_since = None;
                one.shown = one.shown.max(elapsed);
                one.gap.get_or_insert(one.known_at);
                // G2: a pause that cannot be confirmed ends.
                if paused && let (Some(running), Some(unfit)) = (running_since, unfit_since) {
                    let frozen = now.saturating_sub(running.max(unfit).max(one.started));
                    if frozen > NOTICED_AFTER + self.grace + Duration::from_secs(1) {
                        let what = format!("stopwatch {number} of {name} is frozen for {frozen:?}, cut off");
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
        let gap = self.stopwatches[number].gap;
        let overlap = gap.map(|from| self.overlap(&self.stopwatches[number], from)).unwrap_or_default();
        let one = &mut self.stopwatches[number];
        (one.gap, one.known_at) = (None, now);
        one.overlaps += overlap;
        self.course.count("looks at a stopwatch that is connected");
        let one = &self.stopwatches[number];
        if elapsed + slack + self.too_much(one) < charged || elapsed > (charged + slack).max(one.shown + tolerance) {
            let what = format!("stopwatch {number} of {name} shows {elapsed:?}, is charged {charged:?}");
            return self.violation("G3", what);
        }
        let lag = Duration::from_millis(200) + 8 * self.latency;
        let running = running_since.is_some_and(|since| now.saturating_sub(since) > lag);
        let is_paused = paused_since.is_some_and(|since| now.saturating_sub(since) > lag);
        if (paused && running) || (!paused && is_paused) {
            let what = format!("stopwatch {number} of {name} is paused: {paused}, its threads are not so");
            self.violation(if paused { "G2" } else { "G1" }, what);
        }
    }

    pub(super) fn stopwatch_ended(&mut self, number: usize) {
        self.stopwatches[number].running = false;
        self.course.count("commands that ended in time");
    }

    pub(super) fn stopwatch_expired(&mut self, number: usize, at_wall: bool) {
        let now = self.now();
        self.stopwatches[number].running = false;
        let one = &self.stopwatches[number];
        let charged = self.charged(one);
        let (thread, limit) = (one.threads.join("+"), one.limit);
        let (ran, max_wall) = (now - one.started, one.max_wall);
        self.line(format!("stopwatch {number} of {thread} expires: limit {limit:?}, charged {charged:?}"));
        self.course.count("stopwatches that expired");
        // No pause, lost connection or missing answer extends it.
        if max_wall.is_some_and(|max_wall| ran > max_wall + LATE) || (at_wall && max_wall.is_none_or(|max| ran < max)) {
            let what =
                format!("stopwatch {number} of {thread} ended after {ran:?}, of {max_wall:?}: at its wall: {at_wall}");
            return self.violation("G2", what);
        }
        if at_wall {
            return self.course.count("stopwatches that the limit on wall time ended");
        }
        let one = &self.stopwatches[number];
        let unfit_since = self.reach.hosts[&one.host].unfit_since();
        // Without a connection for the whole grace period, it may rely on what it knows.
        let slack = LATE;
        if unfit_since.is_some_and(|since| now.saturating_sub(since.max(one.started)) + slack >= self.grace) {
            return self.course.count("stopwatches that expired cut off");
        }
        let unknown = one.unknown.unwrap_or(now - one.started);
        if charged + self.tolerance() + unknown < limit {
            let what = format!("stopwatch {number} of {thread} expired at {charged:?} of {limit:?}");
            return self.violation("G1", what);
        }
        if one.threads.len() > 1 {
            self.course.count("stopwatches of several threads that expired");
        }
        let paused_since = self.paused_since(&self.stopwatches[number]);
        if paused_since.is_some_and(|since| now.saturating_sub(since) > Duration::from_millis(50) + 4 * self.latency) {
            let what = format!("stopwatch {number} of {thread} expired, paused since {paused_since:?}");
            self.violation("G1", what);
        }
    }

    /// Checks that expired stopwatches have ended.
    pub(super) fn look_at_stopwatches(&mut self) {
        let now = self.now();
        let late = |(number, one): (usize, &Stopwatch)| {
            let fit_for = self.reach.hosts.get(&one.host)?.fit_for(now)?;
            if !one.running {
                return None;
            }
            if one.max_wall.is_some_and(|max_wall| now - one.started > max_wall + LATE) {
                return Some(format!(
                    "stopwatch {number} of {} runs on beyond {:?}",
                    one.threads.join("+"),
                    one.max_wall
                ));
            }
            let due = one.limit
                + self.too_much(one)
                + self.tolerance()
                + one.unknown.unwrap_or(now - one.started)
                + Duration::from_secs(1);
            let late = fit_for > ASKED_WITHIN && self.charged(one) > due;
            late.then(|| {
                format!("stopwatch {number} of {} does not expire: {:?}", one.threads.join("+"), self.charged(one))
            })
        };
        let problems: Vec<_> = self.stopwatches.iter().enumerate().filter_map(late).collect();
        problems.into_iter().for_each(|problem| self.violation("G2", problem));
    }
}
