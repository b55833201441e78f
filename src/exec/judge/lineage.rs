//! How many programs lie between the shell of the command line and a process.
use crate::exec::policy::Lineage;
use std::{collections::HashMap, fs};

/// Entries of ended processes are removed when there are more.
const MAX_ENTRIES: usize = 4_096;
/// The maximum of parents to look at: parents that change meanwhile must not make a circle.
const MAX_PARENTS: usize = 1_000;

pub(super) struct Lineages {
    shell: i32,
    /// For each process that has executed a program: how many lie between the shell and what it executes next, at least 1. An entry may
    /// be of an ended process with the same id. That makes a lineage wrong, but never [`Lineage::Line`].
    depths: HashMap<i32, u32>,
}

impl Lineages {
    pub(super) fn of(shell: i32) -> Self {
        Self { shell, depths: HashMap::new() }
    }

    /// Whose program a process executes next.
    pub(super) fn of_next(&self, process: i32) -> Lineage {
        let mut at = process;
        for _ in 0..MAX_PARENTS {
            if let Some(depth) = self.depths.get(&at) {
                return Lineage::Nested(*depth);
            }
            if at == self.shell {
                return Lineage::Line;
            }
            match parent(at) {
                Some(parent) if parent > 1 => at = parent,
                _ => break,
            }
        }
        Lineage::Unknown
    }

    /// A process has executed a program of this lineage.
    pub(super) fn executed(&mut self, process: i32, lineage: Lineage) {
        let depth = match lineage {
            Lineage::Line => 1,
            Lineage::Nested(depth) => depth.saturating_add(1),
            // Its child processes are of unknown lineage, too.
            Lineage::Unknown => return,
        };
        if self.depths.len() >= MAX_ENTRIES {
            self.depths.retain(|process, _| parent(*process).is_some());
        }
        self.depths.insert(process, depth);
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
        lineages.executed(own, Lineage::Line);
        assert_eq!(lineages.of_next(own), Lineage::Nested(1));
        lineages.executed(own, lineages.of_next(own));
        assert_eq!(lineages.of_next(own), Lineage::Nested(2));
        assert_eq!(Lineages::of(-1).of_next(own), Lineage::Unknown);
    }
}
