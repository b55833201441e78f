//! `pausewatch get`: one thread, read linearizably.
use super::{call, connection, duration, escape::escaped, output::Output, table, wire};
use crate::client::{Elicitation, GetPauseStateRequest, GetPauseStateResponse, PauseState};
use std::process::ExitCode;

/// The arguments of `get`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    thread: connection::Thread,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: connection::Connection,
}

/// Reads one thread.
pub fn run(args: Args) -> ExitCode {
    call::run("get", &args.connection, async |caller| {
        let thread_id = caller.thread_id(&args.thread)?;
        let response = caller.client.get_pause_state(GetPauseStateRequest { thread_id }).await?;
        args.output.show("GetPauseStateResponse", &response, text)
    })
}

fn text(response: &GetPauseStateResponse) -> String {
    response.pause_state.iter().map(|state| summary(state) + &elicitations(state)).collect()
}

/// `thread-1: paused for 12s, 1 open elicitation; 3m05s paused in all`.
fn summary(state: &PauseState) -> String {
    let now = match state.paused {
        true => format!("paused for {}, {}", wire::shown(&state.paused_for), wire::open(state.count)),
        false => "running".to_owned(),
    };
    format!("{}: {now}; {} paused in all\n", escaped(&state.thread_id), wire::shown(&state.paused_total))
}

fn elicitations(state: &PauseState) -> String {
    if state.elicitations.is_empty() {
        return String::new();
    }
    // The moment of sending by the server's own clock, which all its times are of.
    let now = wire::since_epoch(&state.pause_start_time) + wire::length(&state.paused_for);
    let row = |elicitation: &Elicitation| {
        let left = match &elicitation.expire_time {
            Some(_) => duration::show(wire::since_epoch(&elicitation.expire_time).saturating_sub(now)),
            None => "-".into(),
        };
        [
            escaped(&elicitation.elicitation_id).into_owned(),
            duration::show(now.saturating_sub(wire::since_epoch(&elicitation.create_time))),
            left,
            escaped(&elicitation.holder).into_owned(),
            escaped(&elicitation.reason).into_owned(),
        ]
    };
    let rows: Vec<_> = state.elicitations.iter().map(row).collect();
    table::render(["ELICITATION", "OPEN FOR", "LEASE LEFT", "HOLDER", "REASON"], &rows, table::terminal_width())
}
