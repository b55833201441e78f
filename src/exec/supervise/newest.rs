//! Finds the newest processes of the system without a list of all: `/proc/loadavg` says which process id was used last.
//!
//! A list of all processes takes longer than a process lives that only starts another one. By the time at which one of
//! the list is looked at, it has ended, and the other one is not in the list. But its id follows the last one.
use rustix::process::Pid;
use std::{collections::HashSet, fs::File, os::unix::fs::FileExt};

/// The number of looks at the newest processes: a process between `fork` and the table of ids is missed by one.
const LOOKS: u32 = 32;
/// The number of ids before the last one that are looked at: other programs start processes too.
const BEFORE: i32 = 8;
/// The number of ids after it: processes that were started since it was read.
const AFTER: i32 = 2;

pub(super) struct Newest {
    load: File,
    /// The ids that were found.
    known: HashSet<i32>,
}

impl Newest {
    /// `None`: the system does not tell.
    pub(super) fn open() -> Option<Self> {
        let newest = Self { load: File::open("/proc/loadavg").ok()?, known: HashSet::new() };
        newest.last().is_some().then_some(newest)
    }

    /// Calls `found` for each of the newest processes that is wanted, as often as it is found. Returns whether one was found for
    /// the first time: one that has ended is found until its parent has read its exit status.
    pub(super) fn visit(&mut self, is_wanted: impl Fn(i32) -> bool, found: impl Fn(Pid)) -> bool {
        let mut is_new = false;
        for _ in 0..LOOKS {
            let Some(last) = self.last() else { break };
            let ids = (last.saturating_sub(BEFORE).max(1)..=last.saturating_add(AFTER)).rev();
            for process in ids.filter(|id| is_wanted(*id)).filter_map(Pid::from_raw) {
                found(process);
                is_new |= self.known.insert(process.as_raw_pid());
            }
        }
        is_new
    }

    /// The process id that was used last: the fifth field.
    pub(super) fn last(&self) -> Option<i32> {
        let mut text = [0; 128];
        let length = self.load.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..length]).ok()?.split_whitespace().nth(4)?.parse().ok()
    }
}
