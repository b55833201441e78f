//! `pausewatch history --audit`: reads the files of an audit trail from their first line to their last, in bounded memory.
use super::args::Args;
use super::audit::{Gaps, Replay};
use super::files::{self, Found};
use super::summary::Summary;
use super::text;
use crate::cli::failure::{Failure, say};
use crate::cli::{format, table};
use crate::client::{ListPausesRequest, ListPausesResponse, Pause};
use std::collections::VecDeque;

/// Pauses that are shown without --limit: as many as a server keeps.
const DEFAULT_LIMIT: usize = 4_096;
/// Damaged lines that are reported one by one.
const MAX_REPORTED: u64 = 10;

/// The pauses that are wanted, as a list or as totals.
enum Collected {
    /// The last ones, and how many came before.
    Last {
        pauses: VecDeque<Pause>,
        limit: usize,
        older: u64,
    },
    Summary(Box<Summary>),
}

/// Prints the pauses. Returns whether every line could be read.
pub(super) fn run(args: &Args) -> Result<bool, Failure> {
    let files = files::open(&args.audit).map_err(|(name, error)| Failure::System(format!("read {name}"), error))?;
    let wanted = args.filter();
    let mut collected = Collected::new(args);
    let (mut replay, mut damaged) = (Replay::default(), 0);
    for mut file in files {
        let name = file.name.clone();
        while let Some((number, found)) =
            file.next_line().map_err(|error| Failure::System(format!("read {name}"), error))?
        {
            let (result, is_last) = match found {
                Found::Line(line) => (replay.line(line), false),
                Found::Incomplete(line) => (replay.line(line), true),
                Found::TooLong => (Err("it is longer than any line of a trail".into()), false),
            };
            match result {
                Ok(pause) => {
                    pause.into_iter().filter(|pause| is_wanted(pause, &wanted)).for_each(|pause| collected.add(pause))
                }
                // A server may be writing it now.
                Err(_) if is_last => say("history", &format!("{name}:{number}: the last line is incomplete")),
                Err(why) => {
                    damaged += 1;
                    if damaged <= MAX_REPORTED {
                        say("history", &format!("{name}:{number}: {why}"));
                    }
                }
            }
        }
    }
    report(&replay, damaged, &collected);
    collected.show(args)?;
    Ok(damaged == 0)
}

fn is_wanted(pause: &Pause, wanted: &ListPausesRequest) -> bool {
    let order = |time: &prost_types::Timestamp| (time.seconds, time.nanos);
    let ended = pause.end_time.as_ref().map(order);
    (wanted.thread_id.is_empty() || wanted.thread_id == pause.thread_id)
        && wanted.start_time.as_ref().is_none_or(|start| ended >= Some(order(start)))
        && wanted.end_time.as_ref().is_none_or(|end| ended < Some(order(end)))
}

/// Says what is missing.
fn report(replay: &Replay, damaged: u64, collected: &Collected) {
    let Gaps { without_start, without_end, unwritten_lines } = replay.gaps();
    let older = match collected {
        Collected::Last { older, .. } => *older,
        Collected::Summary(_) => 0,
    };
    let more = damaged.saturating_sub(MAX_REPORTED);
    for (count, noun, what) in [
        (more, "more line", "could not be read"),
        (unwritten_lines, "line", "could not be written by the server"),
        (without_start, "pause", "not shown: the files do not have all lines of it from its start"),
        (without_end, "pause", "not shown: lines before its end are missing"),
        (older, "older pause", "not shown: use --limit, --since or --until"),
        (replay.still_paused() as u64, "thread", "paused after the last line"),
    ] {
        if count > 0 {
            say("history", &format!("{} {what}", format::plural(count, noun)));
        }
    }
}

impl Collected {
    fn new(args: &Args) -> Self {
        match args.summary {
            true => Collected::Summary(Box::default()),
            false => {
                let limit = args.limit.map_or(DEFAULT_LIMIT, |limit| limit as usize);
                Collected::Last { pauses: VecDeque::new(), limit, older: 0 }
            }
        }
    }

    fn add(&mut self, pause: Pause) {
        match self {
            Collected::Summary(summary) => summary.add(&pause),
            Collected::Last { pauses, limit, older } => {
                pauses.push_back(pause);
                if pauses.len() > *limit {
                    pauses.pop_front();
                    *older += 1;
                }
            }
        }
    }

    fn show(self, args: &Args) -> Result<(), Failure> {
        match self {
            Collected::Summary(summary) => args.show_summary(*summary),
            Collected::Last { pauses, .. } => {
                let pauses: Vec<_> = pauses.into_iter().rev().collect();
                let response = ListPausesResponse { pauses, ..Default::default() };
                let show = |response: &ListPausesResponse| text::text(&response.pauses, table::terminal_width());
                args.output.show("ListPausesResponse", &response, show)
            }
        }
    }
}
