//! How many programs lie between the shell of the command line and a process.
use crate::exec::policy::Lineage;
use std::{collections::HashMap, fs};

/// Entries of ended processes are removed when there are more.
const MAX_ENTRIES: usize = 4_096;
/// The maximum of parents to look at: parents that change meanwhile must not make a circle.
const MAX_PARENTS: usize = 1_000;

pub(super) struct Lineages {
    shell: i32,
    /// How many programs each process has executed. An entry may be of an ended process with the same id. That makes a lineage wrong, but
    /// never [`Lineage::Line`].
    executed: HashMap<i32, u32>,
    /// For each approved program that was started in the place of another process: that process, which lives as long.
    places: HashMap<i32, i32>,
}

impl Lineages {
    pub(super) fn of(shell: i32) -> Self {
        Self { shell, executed: HashMap::new(), places: HashMap::new() }
    }

    /// Whose program a process executes next.
    pub(super) fn of_next(&self, process: i32) -> Lineage {
        let (mut at, mut depth) = (process, 0_u32);
        for _ in 0..MAX_PARENTS {
            depth = depth.saturating_add(self.executed.get(&at).copied().unwrap_or(0));
            if at == self.shell {
                return if depth == 0 { Lineage::Line } else { Lineage::Nested(depth) };
            }
            match self.places.get(&at).copied().or_else(|| parent(at)) {
                Some(parent) if parent > 1 => at = parent,
                _ => break,
            }
        }
        Lineage::Unknown
    }

    /// A process has executed a program.
    pub(super) fn executed(&mut self, process: i32) {
        if self.executed.len() >= MAX_ENTRIES {
            self.executed.retain(|process, _| parent(*process).is_some());
            self.places.retain(|process, _| parent(*process).is_some());
        }
        let count = self.executed.entry(process).or_default();
        *count = count.saturating_add(1);
    }

    /// An approved program was started in the place of a process.
    pub(super) fn started(&mut self, program: i32, place: i32) {
        self.places.insert(program, place);
        self.executed(program);
    }
}

fn parent(process: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // `1 (sh) S 0 …`: state and parent follow the name, which may contain any character.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lineage_of_a_process_is_counted_from_the_shell() {
        let own = rustix::process::getpid().as_raw_pid();
        let mut lineages = Lineages::of(own);
        assert_eq!(lineages.of_next(own), Lineage::Line);
        lineages.executed(own);
        lineages.executed(own);
        assert_eq!(lineages.of_next(own), Lineage::Nested(2));
        lineages.started(-2, own);
        assert_eq!(lineages.of_next(-2), Lineage::Nested(3), "in the place of another process");
        assert_eq!(Lineages::of(-1).of_next(own), Lineage::Unknown);
    }
}
