//! Judging every program that a command executes, nested ones too (docs/decisions/0004-execs-judged-by-seccomp-notification.md).
//!
//! | file | contents |
//! | --- | --- |
//! | `notify`, `filter`, `fork` | the kernel's facilities; the only unsafe code |
//! | `calls_on_others` | what a sandboxed command may not do to processes outside, judged or not |
//! | `waiting`, `executable`, `own_files`, `view`, `status`, `streams` | what a thread is about to execute |
//! | `setup`, `child`, `supervisor`, `lineage`, `scope`, `contents` | a command and its supervisor, which answers every `execve` in it |
//! | `redirect`, `relay`, `relays` | our program in the place of one that was refused or approved |
//! | `start` | an approved program, outside the sandbox |
//! | `message`, `packet`, `link`, `judging` | between the supervisor and the exec server, or `run --rules` |
//! | `memory` | no huge pages for small processes |
//! | `probe` | whether programs can be judged on this system |
//!
//! Invariants:
//! 1. A restricted program runs only after a verdict, whatever starts it, unless the process that executes it is hostile: see the threat model in
//!    docs/policy.md.
//! 2. A program outside the sandbox runs exactly as it was judged: path, arguments, environment, working directory.
//! 3. If the exec server or the supervisor is killed, no further program is executed, and no process is left.

macro_rules! supported {
    ($($item:item)*) => { $(#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))] $item)* };
}

mod judging;
mod link;
mod memory;
mod message;
mod packet;
supported! {
    mod calls_on_others;
    mod child;
    mod contents;
    mod executable;
    mod filter;
    mod fork;
    mod lineage;
    mod notify;
    mod own_files;
    mod probe;
    mod redirect;
    mod relay;
    mod relays;
    mod scope;
    mod setup;
    mod start;
    mod status;
    mod streams;
    mod supervisor;
    mod view;
    mod waiting;

    pub(crate) use calls_on_others::refuse_calls_on_others;
    pub(crate) use child::CommandProcess;
    pub(crate) use probe::probe;
    pub(crate) use relay::run_if_relay;
    pub(crate) use start::become_approved;
    pub(crate) use setup::{CommandSession, Role, Setup, begin};
}

pub(crate) use judging::Judging;
pub(crate) use link::{Link, connect};
pub(crate) use memory::{restore_huge_pages, save_memory};

/// Whether programs can be judged on this system.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) fn probe(_: &std::path::Path) -> Result<(), String> {
    Err("only Linux on x86_64 and aarch64 supports it".to_owned())
}
