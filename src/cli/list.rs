//! `pausewatch list`: the threads with their open elicitations.
mod board;
mod live;
mod pages;
mod terminal;
mod view;

use super::{call, connection::Connection, format, output::Output, replicas, table};
use crate::client::PauseState;
use crate::escape::escaped;
use pages::all_pages;
use std::process::ExitCode;
use std::time::Duration;

/// How long each replica may take to say how it is.
const ASK_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Text has one line for each open elicitation. On a terminal, long cells are cut to fit; in a file or a pipe they are complete.
JSON is a single response that contains all pages. If the address names several replicas, the text ends with a line that says who leads and \
how long ago each was sure of the latest state.

--watch shows the table again when it changes, the longest pause first, until INT or TERM (exit code 0); on a terminal it is redrawn \
in place, and `q` ends it. LEASE is the time until the coordinator closes the elicitation unless its holder renews it. WATCHERS are the \
streams that watch the thread, without observers such as this one: 0 means that no exec server is known to stop its clocks. On a screen \
narrower than 60 columns both the watchers and the holders are left out. Without a terminal, each change prints a table with the time \
above and an empty line below, or with --output json a ListPauseStatesResponse on a line, at most four per second; the last state is \
always printed. A lost connection is reconnected: meanwhile the table stays as it was.")]
pub struct Args {
    /// Include the known threads that are not paused, and how the last pause of each ended.
    #[arg(long)]
    all: bool,
    /// Show the paused threads again whenever something changes.
    #[arg(long, conflicts_with = "all")]
    watch: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

impl Args {
    /// Whether it runs until a signal ends it.
    pub(super) fn watches(&self) -> bool {
        self.watch
    }
}

pub(crate) fn run(args: Args) -> ExitCode {
    call::run("list", &args.connection, async |client, settings| {
        if args.watch {
            return live::follow(args.output, client, settings).await;
        }
        let response = all_pages(&client, args.all).await?;
        let config = settings.config()?;
        let replicas = match args.output.is_text() && config.address.each().len() > 1 {
            true => replicas::line(&replicas::ask(&config, ASK_WITHIN).await),
            false => String::new(),
        };
        args.output.show("ListPauseStatesResponse", &response, |response| {
            text(&response.pause_states, args.all, table::terminal_width()) + &replicas
        })
    })
}

fn text(states: &[PauseState], all: bool, width: Option<usize>) -> String {
    let paused = states.iter().filter(|state| state.paused).count() as u64;
    let open = format::plural(states.iter().map(|state| u64::from(state.count)).sum(), "open elicitation");
    let totals = match (all, paused) {
        (false, 0) => return "No thread is paused.\n".into(),
        (false, _) => format!("{} paused, {open}.\n", format::plural(paused, "thread")),
        (true, _) => format!("{}, {paused} paused, {open}.\n", format::plural(states.len() as u64, "thread")),
    };
    let rows = states.iter().flat_map(rows);
    let table = match all {
        true => {
            let rows: Vec<_> = rows.collect();
            table::render(["THREAD", "COUNT", "PAUSED FOR", "LAST PAUSE", "HOLDER", "REASON"], &rows, width)
        }
        false => {
            let rows: Vec<_> =
                rows.map(|[id, count, time, _, holder, reason]| [id, count, time, holder, reason]).collect();
            table::render(["THREAD", "COUNT", "PAUSED FOR", "HOLDER", "REASON"], &rows, width)
        }
    };
    format!("{table}\n{totals}")
}

/// One row for each elicitation; the cells of the thread are in the first row only.
fn rows(state: &PauseState) -> Vec<[String; 6]> {
    let paused_for = if state.paused { format::length_text(&state.paused_for) } else { "-".into() };
    let last_pause = format::pause_end(state).unwrap_or_default().to_owned();
    let mut thread = [escaped(&state.thread_id), state.count.to_string(), paused_for, last_pause];
    let mut row = |holder: &str, reason: &str| {
        let [id, count, paused_for, last_pause] = std::mem::take(&mut thread);
        [id, count, paused_for, last_pause, escaped(holder), escaped(reason)]
    };
    match &state.elicitations[..] {
        [] => vec![row("", "")],
        elicitations => elicitations.iter().map(|elicitation| row(&elicitation.holder, &elicitation.reason)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Elicitation, PauseEnd};

    fn state(thread_id: &str, elicitations: &[(&str, &str)]) -> PauseState {
        let (count, paused) = (elicitations.len() as u32, !elicitations.is_empty());
        let elicitations = elicitations.iter().map(|(holder, reason)| Elicitation {
            holder: (*holder).into(),
            reason: (*reason).into(),
            ..Default::default()
        });
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
    fn list_has_one_line_per_elicitation_and_names_each_thread_once() {
        let states = [
            state("build", &[("git[7]@host", "Push?"), ("npm[8]@host", "")]),
            PauseState { last_pause_end: PauseEnd::MaxPause.into(), ..state("idle", &[]) },
            state("z", &[("", "a\nb")]),
        ];
        assert_eq!(
            text(&states, true, None),
            "\
THREAD  COUNT  PAUSED FOR  LAST PAUSE  HOLDER       REASON
build   2      1m15s                   git[7]@host  Push?
                                       npm[8]@host
idle    0      -           max_pause
z       1      1m15s                                a\\nb

3 threads, 2 paused, 3 open elicitations.
"
        );
    }

    #[test]
    fn totals_have_the_right_plural() {
        assert!(
            text(&[state("t", &[("h", "r")])], false, None).ends_with("\n\n1 thread paused, 1 open elicitation.\n")
        );
        assert_eq!(text(&[], false, None), "No thread is paused.\n");
        assert!(text(&[], true, None).ends_with("\n0 threads, 0 paused, 0 open elicitations.\n"));
    }
}
