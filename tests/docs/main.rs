//! The documentation, held against the program: every command of every page is run, what a page shows is what comes out,
//! links lead somewhere, and the API reference says what the proto says.
//!
//! A page is a session: its blocks run from top to bottom in one shell, in a directory of its own, with `pausewatch` on
//! the PATH and nobody else on its network. What the words behind ` ```LANGUAGE ` mean:
//!
//! | block | what happens |
//! | --- | --- |
//! | `sh` | each command is run, and must succeed |
//! | `console` | each line `$ COMMAND` (`> ` continues it) is run, and prints what stands below it |
//! | any, with `file=NAME` | the text is written to NAME |
//! | `sh` or `console`, with `no_run="REASON"` | nothing; the test prints the reason |
//! | `sh` or `console`, with `needs=PROGRAM` | as without it, where there is the program; else nothing, and in CI a failure |
//!
//! What a page shows may have `...` for any text, or on a line of its own for any lines. Lengths of time, times of day,
//! process ids and ids of the server are compared by their form: see `expect.rs`. A command that fails is an error,
//! unless the next one looks at `$?`.
#![allow(clippy::unwrap_used)] // The lint's own exception for tests does not see what tests share.
#![cfg(unix)]
mod api_reference;
mod cases_table;
mod expect;
mod links;
mod mentions;
mod notifications;
mod page;
mod pages;
mod session;
#[path = "../it/support/skipped.rs"]
mod skipped;
mod snippets;
mod tools;
