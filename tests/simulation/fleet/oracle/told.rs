//! Checks what clients and watchers receive: only committed states, nothing older than an earlier answer, and no total
//! above the later true one.
use super::super::machine::nanos;
use super::books::State;
use std::time::Duration;
use tokio::time::Instant;

/// A leader that cannot commit for this long ends its term.
const COMMITTED_WITHIN: i64 = 4_000_000_000;
/// A replica that has reached nothing for this long shows nothing: 3 s, and the interval of its checks.
const STALE: Duration = Duration::from_millis(3_100);

/// The state of a thread that was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Told {
    pub(in super::super) revision: u64,
    pub(in super::super) count: usize,
    pub(in super::super) paused: bool,
    /// Nanoseconds.
    pub(in super::super) total: i64,
}

/// The minimum that an answer must reflect.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Asked {
    pub(in super::super) revision: u64,
    /// `None`: there was no new request.
    pub(in super::super) at: Option<Instant>,
}

impl State {
    /// Checks a state that a replica has sent. `asked`: the time of the request, and the revision that was acknowledged
    /// by then. `reached`: the start of the replica's last call to etcd that was answered.
    pub(super) fn told(&mut self, who: &str, thread: &str, told: Told, asked: Asked, reached: Option<Instant>) {
        let at_least = asked.revision;
        if reached.is_some_and(|since| since.elapsed() > STALE) {
            self.violation(format!(
                "I11: {who} shows {thread}, and has not reached etcd for {:?}",
                reached.map(|at| at.elapsed())
            ));
        }
        if told.revision < at_least {
            self.violation(format!(
                "I4: {who} shows revision {} of {thread}; {at_least} was answered before",
                told.revision
            ));
        }
        // Durations count up to the batch that the leader is committing.
        let began = asked.at.map(|at| nanos(at - self.start) - COMMITTED_WITHIN);
        self.check_told(who, thread, told, began);
    }

    /// Checks a state that a watcher received.
    pub(super) fn watched(&mut self, watcher: usize, thread: &str, told: Told) {
        *self.counts.entry("states that watchers were told").or_default() += 1;
        let last = self.watchers.entry((watcher, thread.to_owned())).or_default();
        let before = std::mem::replace(last, told.revision);
        if told.revision < before {
            self.violation(format!(
                "I5: watcher {watcher} was told revision {} of {thread} after {before}",
                told.revision
            ));
        }
    }

    /// The watchers that have not received the last state of what they watch.
    pub(super) fn left_behind(&self) -> Option<String> {
        self.watchers.iter().find_map(|((watcher, thread), revision)| {
            let last = self.threads.get(thread)?.states.last()?.0;
            (*revision != last)
                .then(|| format!("watcher {watcher} was left at revision {revision} of {thread}, not {last}"))
        })
    }

    /// Checks the answer to a change; `request` names the call.
    pub(super) fn answered(&mut self, thread: &str, request: &str, count: usize, revision: u64) {
        *self.counts.entry("changes that were acknowledged").or_default() += 1;
        let known = *self.answers.entry(request.to_owned()).or_insert((count, revision));
        if known != (count, revision) {
            self.violation(format!("I10: {request} was answered {known:?}, then {:?}", (count, revision)));
        }
        if self.state_of(thread, revision).is_none_or(|(_, known, _)| known != count) {
            self.violation(format!("I2: {request} was answered revision {revision}, count {count}: not in the log"));
        }
        let books = self.threads.entry(thread.to_owned()).or_default();
        books.acknowledged = books.acknowledged.max(revision);
    }

    fn check_told(&mut self, who: &str, thread: &str, told: Told, began: Option<i64>) {
        let now = self.now();
        let Some((_, count, _)) = self.state_of(thread, told.revision) else {
            return self.violation(format!("I2: {who} shows {told:?} of {thread}, which was never committed"));
        };
        let (slack, back) = (self.slack(now), self.back);
        let books = self.threads.entry(thread.to_owned()).or_default();
        // The open pause may have ended meanwhile, by a change that has not been shown yet.
        let is_last = books.states.last().is_none_or(|last| last.0 == told.revision);
        let paused_for = |until: i64| books.paused_since.map_or(0, |since| (until - since).max(0));
        let (least, most) = match told.paused {
            false if is_last => (books.accrued, books.accrued),
            // A follower shows durations up to the time that the leader has confirmed; a new request gets them up to
            // its own time.
            true if is_last => (books.accrued + began.map_or(0, paused_for), books.accrued + paused_for(now)),
            _ => (0, books.accrued + paused_for(now)),
        };
        if told.paused && is_last {
            let (known, before) = books.told.unwrap_or((0, back));
            books.told = Some(if told.total > known { (told.total, back) } else { (known, before) });
        }
        if told.count != count || told.paused != (count > 0) {
            self.violation(format!("I8: {who} shows {told:?} of {thread}; the log has count {count}"));
        }
        if told.total + slack < least || told.total > most + slack {
            self.violation(format!(
                "I6: {who} shows {told:?} of {thread}; it was paused for {least} to {most} ns, give or take {slack}"
            ));
        }
    }
}
