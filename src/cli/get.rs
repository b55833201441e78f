//! `pausewatch get`: one thread, read linearizably.
use super::{call::ThreadCall, duration, format, table};
use crate::client::{Client, Elicitation, GetPauseStateRequest, GetPauseStateResponse, PauseState};
use crate::escape::escaped;
use std::process::ExitCode;
use unicode_width::UnicodeWidthStr;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    call: ThreadCall,
}

pub(crate) fn run(args: Args) -> ExitCode {
    let get = async |client: Client, thread_id| client.get_pause_state(GetPauseStateRequest { thread_id }).await;
    args.call.run("get", "GetPauseStateResponse", get, |_, response| text(response))
}

fn text(response: &GetPauseStateResponse) -> String {
    let width = table::terminal_width();
    response.pause_state.iter().map(|state| summary(state) + &elicitations(state, width)).collect()
}

/// `thread-1: paused for 12s, 1 open elicitation; 3m05s paused in all`, or
/// `thread-1: running; 3m05s paused in all; last pause: expired`.
fn summary(state: &PauseState) -> String {
    let now = match state.paused {
        true => format!("paused for {}, {}", format::length_text(&state.paused_for), format::open(state.count)),
        false => "running".to_owned(),
    };
    let last = format::pause_end(state).map_or(String::new(), |end| format!("; last pause: {end}"));
    format!("{}: {now}; {} paused in all{last}\n", escaped(&state.thread_id), format::length_text(&state.paused_total))
}

fn elicitations(state: &PauseState, width: Option<usize>) -> String {
    if state.elicitations.is_empty() {
        return String::new();
    }
    // When the response was sent, by the server's clock: all times in it are of that clock.
    let now = format::since_epoch(&state.pause_start_time) + format::length(&state.paused_for);
    let row = |elicitation: &Elicitation| {
        let left = match &elicitation.expire_time {
            Some(_) => duration::show(format::since_epoch(&elicitation.expire_time).saturating_sub(now)),
            None => "-".into(),
        };
        [
            escaped(&elicitation.elicitation_id),
            duration::show(now.saturating_sub(format::since_epoch(&elicitation.create_time))),
            left,
            escaped(&elicitation.holder),
            escaped(&elicitation.reason),
        ]
    };
    let rows: Vec<_> = state.elicitations.iter().map(row).collect();
    // A column is cut before its header is, and an id is for `decrement` and `renew`.
    let longest = rows.iter().map(|row| row[0].width()).max().unwrap_or_default();
    let id = format!("{:longest$}", "ELICITATION");
    table::render([&id, "OPEN FOR", "LEASE LEFT", "HOLDER", "REASON"], &rows, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_whole_on_a_usual_terminal() {
        let elicitation_id = "86e87465fe2b7ba123c2c8afb65d9360".to_owned();
        let reason = "May I delete the branch of the last release? ".repeat(3);
        let elicitations = vec![Elicitation { elicitation_id, reason, ..Elicitation::default() }];
        let text = super::elicitations(&PauseState { elicitations, ..PauseState::default() }, Some(80));
        assert!(text.contains("86e87465fe2b7ba123c2c8afb65d9360  ") && text.contains("May I"), "{text}");
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
    }
}
