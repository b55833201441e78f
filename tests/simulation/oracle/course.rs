//! The record of a run: lines to read and compare, and counts.
use std::collections::BTreeMap;
use std::time::Duration;

/// The record of a run.
#[derive(Clone, Default)]
pub(crate) struct Course {
    pub(crate) lines: Vec<String>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    pub(crate) violations: Vec<String>,
}

impl Course {
    pub(super) fn line(&mut self, now: Duration, what: impl AsRef<str>) {
        self.lines.push(format!("{:>7.3} {}", now.as_secs_f64(), what.as_ref()));
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(super) fn violation(&mut self, now: Duration, guarantee: &str, what: &str) {
        self.line(now, format!("VIOLATION of {guarantee}: {what}"));
        self.violations.push(format!("{guarantee} at {:.3} s: {what}", now.as_secs_f64()));
    }
}
