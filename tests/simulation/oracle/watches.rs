//! G6: the states that watchers and readers received.
use super::State;
use pausewatch::client::PauseState;
use std::collections::BTreeMap;
use std::time::Duration;

/// The time within which a change reaches a watcher that reads, besides the delay of a message.
const TOLD_WITHIN: Duration = Duration::from_millis(300);
/// The server's clock and the books differ by at most the resolution of simulated time.
const EXACT: Duration = Duration::from_millis(2);

/// One watch.
#[derive(Debug)]
pub(super) struct Watch {
    host: String,
    /// Empty: all threads.
    threads: Vec<String>,
    /// The last revision of each thread, and whether it was paused.
    last: BTreeMap<String, (u64, bool)>,
    started: Duration,
    /// The time since which it has been reading; `None`: it is busy.
    listens_since: Option<Duration>,
}

impl State {
    pub(super) fn watch_started(&mut self, name: &str, host: &str, threads: Vec<String>) {
        let now = self.now();
        let (host, last) = (host.to_owned(), BTreeMap::new());
        self.watches.insert(name.to_owned(), Watch { host, threads, last, started: now, listens_since: Some(now) });
    }

    pub(super) fn watch_is_busy(&mut self, name: &str, busy: bool) {
        let now = self.now();
        if let Some(watch) = self.watches.get_mut(name) {
            watch.listens_since = (!busy).then_some(now);
        }
    }

    pub(super) fn watched(&mut self, name: &str, state: &PauseState, gap: bool) {
        self.check_state(name, state);
        let watch = self.watches.get_mut(name).expect("it was started");
        let before = watch.last.insert(state.thread_id.clone(), (state.revision, state.paused));
        let must_rise = !gap && !watch.threads.is_empty();
        if let Some((before, _)) = before
            && (state.revision < before || (must_rise && state.revision == before))
        {
            let thread = &state.thread_id;
            self.violation("G6", format!("{name} was told revision {} of {thread} after {before}", state.revision));
        }
        self.course.count("states that watchers were told");
    }

    /// Checks that a state that was shown was really committed.
    pub(super) fn check_state(&mut self, who: &str, told: &PauseState) {
        let now = self.now();
        let thread = self.threads.entry(told.thread_id.clone()).or_default();
        let total = told.paused_total.and_then(|total| Duration::try_from(total).ok()).unwrap_or_default();
        let problem = match thread.state(told.revision) {
            None => Some("was never committed".to_owned()),
            Some(state) if state.count != told.count as usize => Some(format!("has count {}", state.count)),
            Some(state) if (state.count > 0) != told.paused => Some("is paused, or not, as its count says".to_owned()),
            Some(state) => {
                let least = thread.paused_total(state.at);
                let most = if told.paused { thread.paused_total(now) } else { least };
                let wrong = total + EXACT < least || total > most + EXACT;
                wrong.then(|| format!("has a paused total of {least:?} to {most:?}"))
            }
        };
        if let Some(problem) = problem {
            let (thread, revision, count) = (&told.thread_id, told.revision, told.count);
            let told = format!("{who} was told revision {revision} of {thread}, count {count}, total {total:?}");
            self.violation("G6", format!("{told}; it {problem}"));
        }
    }

    /// Checks that the watchers that read have received the latest state.
    pub(super) fn look_at_watches(&mut self) {
        let now = self.now();
        let within = TOLD_WITHIN + 8 * self.latency;
        let mut problems = Vec::new();
        for (name, watch) in &self.watches {
            let Some(fit_for) = self.reach.hosts.get(&watch.host).and_then(|host| host.fit_for(now)) else { continue };
            let listens_for = watch.listens_since.map(|since| now - since).unwrap_or_default();
            if fit_for < within || listens_for < Duration::from_secs(2) || now < watch.started + Duration::from_secs(2)
            {
                continue;
            }
            for (thread, books) in &self.threads {
                let latest = books.last();
                // A watch of all threads gets the paused ones at the start, and the others when they change.
                let all = watch.threads.is_empty();
                let missed = all && latest.count == 0 && now - latest.at > fit_for;
                if missed || now - latest.at < within || !(all || watch.threads.contains(thread)) {
                    continue;
                }
                let told = watch.last.get(thread);
                if told.is_none_or(|(revision, _)| *revision != latest.revision) {
                    problems
                        .push(format!("{name} was not told revision {} of {thread}, but {told:?}", latest.revision));
                }
            }
        }
        problems.into_iter().for_each(|problem| self.violation("G6", problem));
    }

    /// At rest, each watcher has the final state.
    pub(super) fn check_watches_at_rest(&mut self) {
        let mut problems = Vec::new();
        for (name, watch) in &self.watches {
            for (thread, (revision, paused)) in &watch.last {
                let latest = self.threads[thread].last();
                if *paused != (latest.count > 0) || (!watch.threads.is_empty() && *revision != latest.revision) {
                    problems.push(format!("{name} was left with revision {revision} of {thread}, paused {paused}"));
                }
            }
            let untold =
                |thread: &&String| self.threads[*thread].last().revision > 0 && !watch.last.contains_key(*thread);
            problems
                .extend(watch.threads.iter().find(untold).map(|thread| format!("{name} was told nothing of {thread}")));
        }
        problems.into_iter().for_each(|problem| self.violation("G6", problem));
    }
}
