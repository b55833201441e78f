//! The exec server: MCP tools that run the commands of a thread, under stopwatches that stand still while the thread is
//! paused.
//!
//! | file | is |
//! | --- | --- |
//! | `tools` | what the tools take and answer, and what a model is told of them |
//! | `server`, `config` | what all callers share; the configuration |
//! | `handler` | MCP: from a call to a tool, and back |
//! | `scope`, `refusal` | the owner of a command; why a tool cannot do its work |
//! | `shell`, `sessions` | the tools themselves |
//! | `commands` | the commands that run: how many, whose, and their end |
//! | `command` | one of them: its clock, its output, its end |
//! | `clock`, `idle` | times; how long nobody asked for a command |
//! | `launch`, `output` | its start; what it has said |
//! | `approval`, `ask`, `pending` | whether a command may run; asking the person |
//! | `progress` | what a caller is told while a person is waited for |
//! | `stdio`, `http` | serving one client on standard input and output, or many |
//! | `deletions` | HTTP sessions that are deleted |
//!
//! Invariants:
//! 1. A command ends with the call that it was started for, with the session of its caller, or with the server, whichever
//!    is first; all that it started ends with it.
//! 2. What a caller waits for is timed by stopwatches of the thread: the command's limit and the moment to yield too.
//! 3. A command that has ended is reported at once, whatever its clocks do.
//! 4. No lock is held across an await, but the one of a command's standard input, which only its writers take.
mod approval;
mod ask;
mod clock;
mod command;
mod commands;
mod config;
mod deletions;
mod handler;
mod http;
mod idle;
mod launch;
mod output;
mod pending;
mod policy;
mod progress;
mod refusal;
mod scope;
mod server;
mod sessions;
mod shell;
mod stdio;
mod tools;

pub(crate) use ask::WhenUnable;
pub(crate) use config::{Config, Limits};
pub(crate) use handler::Caller;
pub(crate) use http::{Http, PATH, serve_http};
pub(crate) use launch::{Launcher, usual_shell};
pub(crate) use policy::{Policy, SandboxPolicy};
pub(crate) use server::ExecServer;
pub(crate) use stdio::serve_stdio;
