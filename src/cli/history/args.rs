//! The options of `history`, and what they select.
use super::summary::Summary;
use super::time::Time;
use crate::cli::connection::Connection;
use crate::cli::failure::Failure;
use crate::cli::output::Output;
use crate::cli::table;
use crate::client::ListPausesRequest;
use crate::clock::{Clock, System};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The coordinator keeps the latest 4,096 ended pauses, at most 1 MiB, until it stops. Its audit trail (serve --audit-log) keeps \
them for longer: with --audit, no coordinator is asked.
Text has the last pause first, with a line for each elicitation. On a terminal, long cells are cut to fit. JSON is a single \
ListPausesResponse; with --summary, an object with the same numbers as the table.
TIME is how long ago (2h), or RFC 3339, or without an offset in the local time zone (2026-11-21, \"2026-11-21 22:30:00\").
Exit code: 0, 1 if the coordinator or a file cannot be read or a line is damaged, 2 for bad usage.")]
pub struct Args {
    /// Only pauses of this thread [default: all].
    #[arg(long, value_name = "ID")]
    pub(super) thread_id: Option<String>,
    /// Only pauses that ended at this time or later.
    #[arg(long, value_name = "TIME", value_parser = Time::parse)]
    pub(super) since: Option<Time>,
    /// Only pauses that ended before this time.
    #[arg(long, value_name = "TIME", value_parser = Time::parse)]
    pub(super) until: Option<Time>,
    /// Only the last N pauses, or the first N rows of --summary [default: all; with --audit and without --summary, 4096].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) limit: Option<u32>,
    /// Add up the time that was waited for a person, by holder (without its process id) and reason, the longest first.
    #[arg(long)]
    pub(super) summary: bool,
    /// Read these files of an audit trail, in any order; `-` is standard input.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(super) audit: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) connection: Connection,
}

impl Args {
    /// Why no pause can be wanted.
    pub(super) fn nothing_in_between(&self) -> Option<&'static str> {
        let ListPausesRequest { start_time, end_time, .. } = self.filter();
        let order = |time: prost_types::Timestamp| (time.seconds, time.nanos);
        let is_reversed = end_time.map(order)? < start_time.map(order)?;
        is_reversed.then_some("--until is before --since")
    }

    /// The pauses that are wanted.
    pub(super) fn filter(&self) -> ListPausesRequest {
        let now = System::new().now();
        let at = |time: Option<Time>| time.map(|time| time.at(now));
        ListPausesRequest {
            thread_id: self.thread_id.clone().unwrap_or_default(),
            start_time: at(self.since),
            end_time: at(self.until),
            ..Default::default()
        }
    }

    pub(super) fn show_summary(&self, summary: Summary) -> Result<(), Failure> {
        let report = summary.report(self.limit.map_or(usize::MAX, |limit| limit as usize));
        self.output.show_value(&report, |report| report.text(table::terminal_width()))
    }
}
