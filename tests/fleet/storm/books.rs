//! The results of a storm, and the verdict.
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct Books(Mutex<State>);

#[derive(Default)]
struct State {
    counts: BTreeMap<&'static str, u64>,
    faults: BTreeMap<String, u64>,
    /// Each fault: its name, its start and its end.
    log: Vec<(String, Instant, Option<Instant>)>,
    longest_call: Option<(Instant, Instant)>,
    worst_charge: Duration,
    failures: Vec<String>,
}

/// Changes that were acknowledged and are lost.
pub(crate) const LOST: &str = "lost";
/// Changes that were made twice.
pub(crate) const DOUBLED: &str = "doubled";
/// Commands that expired while their thread was paused.
pub(crate) const KILLED: &str = "killed";
pub(crate) const CALLS: &str = "calls";
pub(crate) const HISTORIES: &str = "histories";
pub(crate) const OPERATIONS: &str = "operations";
pub(crate) const UNKNOWN: &str = "unknown";
pub(crate) const COMMANDS: &str = "commands";
pub(crate) const HELD: &str = "held";
/// Commands with any other unexpected end.
pub(crate) const WRONG: &str = "wrong";

impl Books {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics while it holds the books")
    }

    pub(crate) fn count(&self, what: &'static str, more: usize) {
        *self.state().counts.entry(what).or_default() += more as u64;
    }

    /// Records a failure.
    pub(crate) fn fail(&self, what: &'static str, how: impl Display) {
        println!("FAILED: {what}: {how}");
        self.count(what, 1);
        self.state().failures.push(format!("{what}: {how}"));
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.state().failures.is_empty()
    }

    /// Records the start of a fault; returns its number.
    pub(crate) fn begins(&self, fault: &str) -> usize {
        let mut state = self.state();
        *state.faults.entry(fault.to_owned()).or_default() += 1;
        state.log.push((fault.to_owned(), Instant::now(), None));
        state.log.len() - 1
    }

    pub(crate) fn is_over(&self, number: usize) {
        self.state().log[number].2 = Some(Instant::now());
    }

    /// Records that a call that began at `began` was answered.
    pub(crate) fn answered(&self, began: Instant) {
        let (mut state, now) = (self.state(), Instant::now());
        *state.counts.entry(CALLS).or_default() += 1;
        if state.longest_call.is_none_or(|(from, to)| now - began > to - from) {
            state.longest_call = Some((began, now));
        }
    }

    pub(crate) fn charged_wrongly_by(&self, wrong: Duration) {
        let mut state = self.state();
        state.worst_charge = state.worst_charge.max(wrong);
    }

    /// Prints the results.
    ///
    /// # Panics
    /// If there are failures.
    pub(crate) fn verdict(&self, began: Instant, takeovers: u64) {
        let state = self.state();
        let of = |what| state.counts.get(what).copied().unwrap_or_default();
        let faults: u64 = state.faults.values().sum();
        println!("\nfaults       {faults} in {:.0} s, {takeovers} takeovers", began.elapsed().as_secs_f64());
        state.faults.iter().for_each(|(fault, count)| println!("             {count:>4} {fault}"));
        let (from, to) = state.longest_call.expect("somebody has called");
        let during = state.log.iter().filter(|(_, began, over)| *began < to && over.is_none_or(|over| over > from));
        let during: Vec<_> = during.map(|(fault, ..)| &**fault).collect();
        println!(
            "calls        {} answered; {} changes lost, {} doubled; the longest took {:.2} s, during: {}",
            of(CALLS),
            of(LOST),
            of(DOUBLED),
            (to - from).as_secs_f64(),
            during.join(", ")
        );
        println!(
            "histories    {} of {} operations, {} of which were never answered; each is linearizable",
            of(HISTORIES),
            of(OPERATIONS),
            of(UNKNOWN)
        );
        println!(
            "commands     {} run, {} of them held in time; {} killed while they were held, {} wrong otherwise; charged wrongly by {:.2} ms at most",
            of(COMMANDS),
            of(HELD),
            of(KILLED),
            of(WRONG),
            state.worst_charge.as_secs_f64() * 1e3
        );
        assert!(state.failures.is_empty(), "{} failures:\n{}", state.failures.len(), state.failures.join("\n"));
        for what in [CALLS, HISTORIES, OPERATIONS, COMMANDS, HELD] {
            assert!(of(what) > 0, "the storm had no {what}, so it tested nothing");
        }
        println!("verdict      every guarantee held");
    }
}
