//! How many programs lie between the shell of the command line and a process.
//!
//! The kernel knows whether a process has executed a program since it was forked. So only the executions of the shell
//! itself are recorded.
use crate::exec::policy::Lineage;
use std::{collections::HashMap, fs};

/// The maximum number of parents to follow: parents that change meanwhile must not cause an endless loop.
const MAX_PARENTS: usize = 1_000;

pub(super) struct Lineages {
    shell: i32,
    /// Where the stack of the shell begins, which changes when it executes another program.
    stack: Option<u64>,
    /// The number of programs that the first thread of the shell has executed in place of the shell.
    executed: u32,
    /// For each approved program that was started in the place of another process: that process, which lives as long.
    places: HashMap<i32, i32>,
}

impl Lineages {
    pub(super) fn of(shell: i32) -> Self {
        Self { shell, stack: None, executed: 0, places: HashMap::new() }
    }

    /// Call it when a thread wants to execute a program: from the first time on, the shell is running.
    pub(super) fn see_shell(&mut self) {
        if self.stack.is_none() {
            self.stack = Some(Process::of(self.shell).map_or(0, |shell| shell.stack));
        }
    }

    /// The lineage of the program that a process executes next.
    pub(super) fn of_next(&self, process: i32) -> Lineage {
        let (mut at, mut depth) = (process, 0_u32);
        for _ in 0..MAX_PARENTS {
            if at == self.shell {
                return match depth + self.executed_by_shell() {
                    0 => Lineage::Line,
                    depth => Lineage::Nested(depth),
                };
            }
            // An approved program and the relay in its place count as one program.
            let place = self.places.get(&at);
            if place == Some(&self.shell) {
                return Lineage::Nested(depth + 1);
            }
            let Some(Process { parent, has_executed, .. }) = Process::of(*place.unwrap_or(&at)) else { break };
            depth += u32::from(has_executed || place.is_some());
            if parent <= 1 {
                break;
            }
            at = parent;
        }
        Lineage::Unknown
    }

    fn executed_by_shell(&self) -> u32 {
        let stack = Process::of(self.shell).map_or(0, |shell| shell.stack);
        match stack != 0 && self.stack == Some(stack) {
            true => self.executed,
            false => self.executed.max(1),
        }
    }

    /// A thread continues, and executes a program.
    pub(super) fn executes(&mut self, thread: i32) {
        if thread == self.shell {
            self.executed = self.executed.saturating_add(1);
        }
    }

    /// An approved program was started in the place of a process.
    pub(super) fn started(&mut self, program: i32, place: i32) {
        self.places.insert(program, place);
    }

    /// An approved program has ended.
    pub(super) fn ended(&mut self, program: i32) {
        self.places.remove(&program);
    }
}

/// The fields of `/proc/PID/stat` that are needed.
struct Process {
    parent: i32,
    has_executed: bool,
    /// The address at which its stack begins; 0: this process may not read it.
    stack: u64,
}

impl Process {
    /// `None`: it has ended.
    fn of(process: i32) -> Option<Self> {
        /// "Forked but didn't exec" (PF_FORKNOEXEC of `linux/sched.h`).
        const FORKED_ONLY: u64 = 0x40;
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name in parentheses may contain anything. The state is the third field.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self { parent: field(4)?.try_into().ok()?, has_executed: field(9)? & FORKED_ONLY == 0, stack: field(28)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader, Write},
        process::{Child, Command, Stdio},
    };

    /// A shell that has said that it is ready.
    fn shell(script: &str) -> (Child, i32) {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        wait_until_ready(&mut shell);
        let process = i32::try_from(shell.id()).unwrap();
        (shell, process)
    }

    fn wait_until_ready(shell: &mut Child) {
        let mut line = String::new();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    fn only_child(process: i32) -> i32 {
        let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
        children.trim().parse().unwrap_or_else(|_| panic!("one child: {children}"))
    }

    fn lineages_of(shell: i32) -> Lineages {
        let mut lineages = Lineages::of(shell);
        lineages.see_shell();
        lineages
    }

    #[test]
    fn a_process_that_the_shell_has_only_forked_executes_the_line() {
        let (mut shell, process) = shell("exec 3<&0; (read x <&3; :) & echo ready; wait");
        let lineages = lineages_of(process);
        assert_eq!(lineages.of_next(process), Lineage::Line);
        assert_eq!(lineages.of_next(only_child(process)), Lineage::Line);
        assert_eq!(Lineages::of(-1).of_next(process), Lineage::Unknown);
        assert_eq!(Lineages::of(process).of_next(process), Lineage::Nested(1), "a shell that was never seen");
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    #[test]
    fn what_another_program_executes_is_nested() {
        let (mut shell, process) = shell("exec 3<&0; sh -c 'echo ready; read x <&3; :' & wait");
        let (mut lineages, child) = (lineages_of(process), only_child(process));
        assert_eq!(lineages.of_next(child), Lineage::Nested(1));
        lineages.started(-2, child);
        assert_eq!(lineages.of_next(-2), Lineage::Nested(1), "in the place of the child");
        lineages.started(-3, process);
        assert_eq!(lineages.of_next(-3), Lineage::Nested(1), "in the place of the shell");
        lineages.ended(-3);
        assert_eq!(lineages.of_next(-3), Lineage::Unknown);
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    /// Also if it was not its first thread, whose number calls have.
    #[test]
    fn what_the_shell_executes_in_its_own_place_is_nested_afterwards() {
        let (mut shell, process) = shell("echo ready; read x; exec sh -c 'echo ready; read x'");
        let mut lineages = lineages_of(process);
        assert_eq!(lineages.of_next(process), Lineage::Line);
        shell.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        wait_until_ready(&mut shell);
        assert_eq!(lineages.of_next(process), Lineage::Nested(1));
        lineages.executes(process);
        lineages.executes(process + 1);
        assert_eq!(lineages.of_next(process), Lineage::Nested(1));
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
