//! The messages between a supervisor and its exec server.
use crate::exec::policy::{Action, Exec, Reach};
use serde::{Deserialize, Serialize};

/// From the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The first process of the command runs.
    Started { process: i32 },
    /// A thread waits to execute a program, until a [`Verdict`] with this id.
    Asks { id: u64, exec: Box<Exec> },
    /// That thread has been killed, or gets a signal that ends it: no verdict is needed.
    Withdrawn { id: u64 },
    /// The first process of the command has ended, with this status of `wait`. Others may run on.
    Ended { status: i32 },
    /// Something that the caller of the command should know.
    Noted(String),
}

/// From the exec server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) id: u64,
    pub(crate) action: Action,
    /// For a program that leaves the sandbox: what commands can write.
    pub(crate) reach: Reach,
}
