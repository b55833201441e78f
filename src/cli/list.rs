//! `pausewatch list`: who waits for whom, for what, and since when.
use super::{call, connection, escape::escaped, failure::Failure, output::Output, table, wire};
use crate::client::{Client, ListPauseStatesRequest, ListPauseStatesResponse, PauseState};
use std::process::ExitCode;

/// The most that the server puts on a page.
const PAGE_SIZE: i32 = 1_000;

/// The arguments of `list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Text has a line for each open elicitation. On a terminal long cells are cut to fit, in a file or a pipe they are whole.
JSON is one response with all pages in it.")]
pub struct Args {
    /// Also the threads that are known and not paused.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: connection::Connection,
}

/// Lists the threads.
pub fn run(args: Args) -> ExitCode {
    call::run("list", &args.connection, async |caller| {
        let response = all_pages(&caller.client, args.all).await?;
        args.output.show("ListPauseStatesResponse", &response, |response| {
            text(&response.pause_states, args.all, table::terminal_width())
        })
    })
}

async fn all_pages(client: &Client, include_running: bool) -> Result<ListPauseStatesResponse, Failure> {
    let mut all = ListPauseStatesResponse::default();
    let mut page_token = String::new();
    loop {
        let request = ListPauseStatesRequest { page_size: PAGE_SIZE, page_token, include_running };
        let page = client.list_pause_states(request).await?;
        all.pause_states.extend(page.pause_states);
        if page.next_page_token.is_empty() {
            return Ok(all);
        }
        page_token = page.next_page_token;
    }
}

fn text(states: &[PauseState], all: bool, width: Option<usize>) -> String {
    let paused = states.iter().filter(|state| state.paused).count() as u64;
    let open = states.iter().map(|state| u64::from(state.count)).sum();
    let totals = match (all, paused) {
        (false, 0) => return "No thread is paused.\n".into(),
        (false, _) => {
            format!("{} paused, {}.\n", wire::plural(paused, "thread"), wire::plural(open, "open elicitation"))
        }
        (true, _) => {
            let threads = wire::plural(states.len() as u64, "thread");
            format!("{threads}, {paused} paused, {}.\n", wire::plural(open, "open elicitation"))
        }
    };
    let rows: Vec<_> = states.iter().flat_map(rows).collect();
    let table = table::render(["THREAD", "COUNT", "PAUSED FOR", "HOLDER", "REASON"], &rows, width);
    format!("{table}\n{totals}")
}

/// One for each elicitation; what is said of the thread stands in the first.
fn rows(state: &PauseState) -> Vec<[String; 5]> {
    let paused_for = if state.paused { wire::shown(&state.paused_for) } else { "-".into() };
    let first = [escaped(&state.thread_id).into_owned(), state.count.to_string(), paused_for];
    let mut rows: Vec<_> = state
        .elicitations
        .iter()
        .map(|elicitation| {
            let [holder, reason] = [&elicitation.holder, &elicitation.reason].map(|text| escaped(text).into_owned());
            [String::new(), String::new(), String::new(), holder, reason]
        })
        .collect();
    if rows.is_empty() {
        rows.push(Default::default());
    }
    for (cell, text) in rows[0].iter_mut().zip(first) {
        *cell = text;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Elicitation;

    fn state(thread_id: &str, asked: &[(&str, &str)]) -> PauseState {
        let elicitations = asked.iter().map(|(holder, reason)| Elicitation {
            holder: (*holder).into(),
            reason: (*reason).into(),
            ..Default::default()
        });
        let (count, paused) = (asked.len() as u32, !asked.is_empty());
        let paused_for = paused.then_some(prost_types::Duration { seconds: 75, nanos: 0 });
        PauseState {
            thread_id: thread_id.into(),
            count,
            paused,
            paused_for,
            elicitations: elicitations.collect(),
            ..Default::default()
        }
    }

    #[test]
    fn a_list_has_a_line_for_each_elicitation_and_each_thread_once() {
        let states = [
            state("build", &[("git[7]@host", "Push?"), ("npm[8]@host", "")]),
            state("idle", &[]),
            state("z", &[("", "a\nb")]),
        ];
        assert_eq!(
            text(&states, true, None),
            "\
THREAD  COUNT  PAUSED FOR  HOLDER       REASON
build   2      1m15s       git[7]@host  Push?
                           npm[8]@host
idle    0      -
z       1      1m15s                    a\\nb

3 threads, 2 paused, 3 open elicitations.
"
        );
    }

    #[test]
    fn totals_are_worded_for_one_and_none() {
        assert!(
            text(&[state("t", &[("h", "r")])], false, None).ends_with("\n\n1 thread paused, 1 open elicitation.\n")
        );
        assert_eq!(text(&[], false, None), "No thread is paused.\n");
        assert!(text(&[], true, None).ends_with("\n0 threads, 0 paused, 0 open elicitations.\n"));
    }
}
