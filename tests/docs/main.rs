//! Checks the documentation against the program: every command of every page is run, its output agrees with the page,
//! links have targets, and the API reference agrees with the proto.
//!
//! A page is a session: its blocks run from top to bottom in one shell, in a new directory, with `pausewatch` on the
//! PATH and in a separate network. The words after ` ```LANGUAGE ` mean:
//!
//! | block | what happens |
//! | --- | --- |
//! | `sh` | each command is run, and must succeed |
//! | `console` | each line `$ COMMAND` (`> ` continues it) is run, and must print the lines below it |
//! | any, with `file=NAME` | the text is written to NAME |
//! | `sh` or `console`, with `no_run="REASON"` | nothing; the test prints the reason |
//! | `sh` or `console`, with `needs=PROGRAM` | the same, if the program is installed; otherwise nothing, and in CI a failure |
//!
//! The output on a page may have `...` for any text, or on its own line for any lines. Durations, times of day, process
//! ids and ids of the server are compared by their form: see `expect.rs`. A command that fails is an error, unless the
//! next one uses `$?`.
#![allow(clippy::unwrap_used)] // The lint's exception for tests does not cover code that tests share.
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
