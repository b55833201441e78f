//! The exec server: MCP tools that run the commands of a thread under stopwatches, which stop while the thread is paused.
//!
//! | file | contents |
//! | --- | --- |
//! | `tools` | the tools as a model sees them: parameters, results, descriptions |
//! | `server`, `config` | what all callers share; the configuration |
//! | `handler` | MCP: dispatches a call to its tool |
//! | `scope`, `refusal` | the owner of a command; the error of a tool |
//! | `shell`, `sessions` | the implementation of the tools |
//! | `commands` | the table of commands: limit, lookup, removal |
//! | `command` | one command: its clock, its output, its end |
//! | `clock`, `idle` | wall time and active time; the idle timeout |
//! | `launch`, `output` | starting a process; its unread output |
//! | `policy`, `approval`, `ask`, `pending` | whether a command may run; asking the person |
//! | `nested_programs`, `notes`, `exec_questions`, `running_call`, `request_key` | programs that a running command is about to execute |
//! | `progress` | progress notifications while a person is being asked |
//! | `stdio`, `http` | serving one client on standard input and output, or many over HTTP |
//! | `http_sessions` | HTTP sessions: their deletion; too many of them |
//! | `peer`, `http_caller` | the process that sends an HTTP request; whether a person is asked for it |
//!
//! Invariants:
//! 1. A command ends with its call, with the session of its caller, or with the server, whichever ends first; every process
//!    that it started ends with it.
//! 2. Every time limit runs on a stopwatch of the thread: the command's own limit, and `yield_time_ms`.
//! 3. The end of a command is reported at once, even while its thread is paused.
//! 4. No lock is held across an await except that of a command's standard input, which only writers take.
mod approval;
mod ask;
mod clock;
mod command;
mod commands;
mod config;
mod exec_questions;
mod handler;
mod http;
mod http_caller;
mod http_sessions;
mod idle;
mod launch;
mod nested_programs;
mod notes;
mod output;
mod peer;
mod pending;
mod policy;
mod progress;
mod refusal;
mod request_key;
mod running_call;
mod scope;
mod server;
mod sessions;
mod shell;
mod stdio;
mod tools;

pub(crate) use ask::WhenUnable;
pub(crate) use config::{Config, Limits};
pub(crate) use handler::Caller;
pub(crate) use http::{Http, HttpToken, PATH, serve_http};
pub(crate) use launch::{HTTP_TOKEN, Launcher, default_shell};
pub(crate) use nested_programs::NestedPrograms;
pub(crate) use policy::{Policy, SandboxPolicy};
pub(crate) use server::ExecServer;
pub(crate) use stdio::serve_stdio;
