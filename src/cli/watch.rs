//! `pausewatch watch`: prints the states of threads as they change, until a signal or the end of its reader.
//!
//! 1. The first connection must succeed. A later one that is lost is reported on standard error, and reconnected.
//! 2. A command of `--exec` never delays it (`watch/exec.rs`).
//! 3. It ends with 0 on INT and TERM, and when standard output is closed, even if no thread changes.
mod exec;
mod questions;

use super::{
    call,
    connection::{self, Connection},
    failure,
    failure::Failure,
    format,
    output::{self, Json, Output},
};
use crate::client::{Client, Event, Message, Settings, Watch, WatchPauseStateResponse};
use crate::clock::{Clock, System};
use crate::escape::escaped;
use crate::proto::v1::{SnapshotComplete, watch_pause_state_response::Event as ResponseEvent};
use exec::Notifier;
use std::{process::ExitCode, time::Duration};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The output begins with the state of each watched thread (without --thread-id: of each paused thread), then has a line for each \
change. A lost connection is reconnected; changes that were missed appear as one change.
With --exec, or without --thread-id, it is an observer: it does not count among the watchers of a thread.
JSON is one message per line, with `snapshotComplete` after the first states and without heartbeats.
Ends with exit code 0 on INT or TERM, and when standard output is closed.")]
pub struct Args {
    /// A thread to watch; repeatable [env: PAUSEWATCH_THREAD_ID, else CODEX_THREAD_ID, else
    /// CLAUDE_CODE_SESSION_ID] [default: all].
    #[arg(long, value_name = "ID")]
    thread_id: Vec<String>,
    /// Include the open elicitations of each thread.
    #[arg(long)]
    include_elicitations: bool,
    /// Also run this shell command for each change, with the state as JSON on its standard input, and PAUSEWATCH_EVENT
    /// (waiting or resumed), PAUSEWATCH_THREAD_ID, PAUSEWATCH_REASON, PAUSEWATCH_HOLDER and PAUSEWATCH_ENDED_BY (decremented,
    /// released, expired or max_pause; empty while it waits, or if it is not known) in its environment.
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
    /// Run it once for each question that still waits after this time, and once more when the thread resumes.
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse, default_value = "0", hide_default_value = true, requires = "exec")]
    after: Duration,
    /// Kill it if it runs for longer.
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse, default_value = "30s", requires = "exec")]
    exec_timeout: Duration,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(args: Args) -> ExitCode {
    call::run("watch", &args.connection, async |client, settings| {
        let handler = |kind| signal(kind).map_err(|error| Failure::System("handle signals".into(), error));
        let (mut interrupt, mut terminate) = (handler(SignalKind::interrupt())?, handler(SignalKind::terminate())?);
        tokio::select! {
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
            () = output::closed() => Ok(()),
            result = follow(&args, &client, settings) => result,
        }
    })
}

async fn follow(args: &Args, client: &Client, settings: &Settings) -> Result<(), Failure> {
    let mut watch = open(args, client, settings)?;
    let mut first = Some(Message::Event(connection::first_event(&mut watch).await?));
    let json = args.output.json("WatchPauseStateResponse");
    let mut notifier =
        args.exec.clone().map(|command| Notifier::new(command, args.after, args.exec_timeout, Json::of("PauseState")));
    let clock = System::new();
    // Whether the connection was lost, and whether all first states have been printed since it was made.
    let (mut is_lost, mut is_complete) = (false, false);
    // Not the blocking one: a slow reader must not delay signals.
    let mut out = tokio::io::stdout();
    loop {
        let message = match first.take() {
            Some(message) => message,
            None => watch.next_message().await,
        };
        let event = match message {
            Message::Event(Event::Disconnected { error, .. }) => {
                let (address, why) = (settings.address.clone().unwrap_or_default(), failure::cause(&error));
                failure::say("watch", &format!("the connection to {address} is lost: {why}; trying again"));
                (is_lost, is_complete) = (true, false);
                continue;
            }
            Message::Refused { thread_ids, error, .. } => {
                for thread_id in &thread_ids {
                    let why = failure::cause(&error);
                    failure::say("watch", &format!("thread {} is not watched: {why}", escaped(thread_id)));
                }
                continue;
            }
            // While threads are refused, this comes after every answer.
            Message::OthersComplete if is_complete => continue,
            Message::Event(Event::SnapshotComplete) | Message::OthersComplete => {
                if std::mem::take(&mut is_lost) {
                    failure::say("watch", "connected again");
                }
                is_complete = true;
                ResponseEvent::SnapshotComplete(SnapshotComplete::default())
            }
            // This command requests no confirmations.
            Message::Confirmed { .. } => continue,
            // The thread did not change while the connection was lost.
            Message::Event(Event::State(update)) if json.is_none() && !update.changed => continue,
            Message::Event(Event::State(mut update)) => {
                if let Some(notifier) = notifier.as_mut().filter(|_| update.changed) {
                    notifier.changed(&update.state);
                }
                if !args.include_elicitations {
                    update.state.elicitations.clear();
                }
                ResponseEvent::PauseState(update.state)
            }
        };
        let text = match &json {
            Some(json) => json.format(&WatchPauseStateResponse { event: Some(event) }, serde_json::to_string)?,
            None => text(&event, &clock),
        };
        if !output::print_part(&mut out, &text).await? {
            return Ok(());
        }
    }
}

fn open(args: &Args, client: &Client, settings: &Settings) -> Result<Watch, Failure> {
    let configured = settings.thread_id.as_ref().filter(|_| args.thread_id.is_empty());
    let thread_ids: Vec<_> = args.thread_id.iter().chain(configured).collect();
    let is_of_all = thread_ids.is_empty();
    let mut watch = if is_of_all { client.watch_all() } else { client.watch() };
    for thread_id in thread_ids {
        watch.add(thread_id)?;
    }
    if is_of_all || args.exec.is_some() {
        watch = watch.as_observer();
    }
    Ok(if args.include_elicitations || args.exec.is_some() { watch.with_elicitations() } else { watch })
}

/// `2026-11-21T22:30:00.123+01:00  thread-1  count 1  paused  12s in all`, and a line for each elicitation. If the last
/// pause of the thread has ended, the line also shows how: `  expired`.
fn text(event: &ResponseEvent, clock: &System) -> String {
    let ResponseEvent::PauseState(state) = event else { return String::new() };
    let received = format::local_time_to_the_millisecond(clock.now().wall);
    let paused = if state.paused { "paused" } else { "running" };
    let (thread_id, in_all) = (escaped(&state.thread_id), format::length_text(&state.paused_total));
    let ended_by = format::pause_end(state).map_or(String::new(), |end| format!("  {end}"));
    let mut text = format!("{received}  {thread_id}  count {}  {paused}  {in_all} in all{ended_by}\n", state.count);
    for elicitation in &state.elicitations {
        let [id, holder, reason] =
            [&elicitation.elicitation_id, &elicitation.holder, &elicitation.reason].map(|text| escaped(text));
        text += &format!("    {id}  {holder}  {reason}\n");
    }
    text
}
