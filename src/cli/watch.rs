//! `pausewatch watch`: the states of threads as they change, for as long as somebody reads.
//!
//! 1. The first connection must succeed; a later one that breaks is told on standard error, and made again.
//! 2. It ends with 0 when it is told to (INT, TERM) and when nobody reads any more, whether or not anything happens.
use super::{call, connection, escape::escaped, failure, failure::Failure, output::Output, wire};
use crate::client::{Event, PauseState, Watch, WatchPauseStateResponse};
use crate::clock::{Clock, System};
use crate::proto::v1::{SnapshotComplete, watch_pause_state_response::Event as Wire};
use std::{io, io::ErrorKind, os::fd::AsFd, process::ExitCode, time::Duration};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};

/// How long the first connection is tried again.
const FIRST_PATIENCE: Duration = Duration::from_secs(1);

/// The arguments of `watch`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
First comes the state of each watched thread (of all: of each that is paused), then each change. When the connection is \
lost, it is made again, and what was missed comes as one change.
JSON is one message a line, `snapshotComplete` after the first states; heartbeats are left out.
Ends with 0 by INT or TERM, and when standard output is closed.")]
pub struct Args {
    /// A thread to watch; repeatable [env: PAUSEWATCH_THREAD_ID] [default: all].
    #[arg(long, value_name = "ID")]
    thread_id: Vec<String>,
    /// Also show the open elicitations of each thread.
    #[arg(long)]
    include_elicitations: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: connection::Connection,
}

/// Watches until it is told to end.
pub fn run(args: Args) -> ExitCode {
    call::run("watch", &args.connection, async |caller| {
        tokio::select! {
            ended = ended() => ended.map_err(|error| Failure::System("handle signals", error)),
            () = nobody_reads() => Ok(()),
            result = follow(&args, caller) => result,
        }
    })
}

async fn follow(args: &Args, caller: &call::Caller) -> Result<(), Failure> {
    let mut watch = open(args, caller)?;
    let json = args.output.json("WatchPauseStateResponse");
    let clock = System::new();
    let mut link = Link::New;
    // Not the blocking one: a reader that is slow must not keep signals waiting.
    let mut out = tokio::io::stdout();
    loop {
        let event = match link {
            Link::New => link.first(&mut watch).await?,
            _ => watch.next().await,
        };
        let message = match event {
            Event::Disconnected { error, .. } => {
                let why = failure::cause(&error);
                failure::say("watch", &format!("the connection to {} is lost: {why}; trying again", caller.address));
                link = Link::Lost;
                continue;
            }
            Event::SnapshotComplete => {
                if std::mem::replace(&mut link, Link::Up) == Link::Lost {
                    failure::say("watch", "connected again");
                }
                Wire::SnapshotComplete(SnapshotComplete {})
            }
            // Nothing happened to it while the connection was lost.
            Event::State(update) if json.is_none() && !update.changed => continue,
            Event::State(update) => {
                link = if link == Link::New { Link::Up } else { link };
                Wire::PauseState(update.state)
            }
        };
        let text = match &json {
            Some(json) => json.line(&WatchPauseStateResponse { event: Some(message) })?,
            None => text(&message, &clock),
        };
        let written = async {
            out.write_all(text.as_bytes()).await?;
            out.flush().await
        };
        match written.await {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            result => result.map_err(|error| Failure::System("write to standard output", error))?,
        }
    }
}

fn open(args: &Args, caller: &call::Caller) -> Result<Watch, Failure> {
    let configured = if args.thread_id.is_empty() { caller.configured_thread_id() } else { None };
    let thread_ids: Vec<_> = args.thread_id.iter().chain(&configured).collect();
    let mut watch = match thread_ids.is_empty() {
        true => caller.client.watch_all(),
        false => caller.client.watch(),
    };
    for thread_id in thread_ids {
        watch.add(thread_id)?;
    }
    Ok(if args.include_elicitations { watch.with_elicitations() } else { watch })
}

/// What is known of the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    New,
    Up,
    Lost,
}

impl Link {
    /// The first event that is not a failure, if it comes soon.
    async fn first(self, watch: &mut Watch) -> Result<Event, Failure> {
        let error = match watch.next().await {
            Event::Disconnected { error, .. } => error,
            event => return Ok(event),
        };
        if !error.is_transient() {
            return Err(error.into());
        }
        // The watch says once that it is disconnected, so what comes next is none.
        tokio::time::timeout(FIRST_PATIENCE, watch.next()).await.map_err(|_| error.into())
    }
}

/// `2026-11-21T22:30:00.123+01:00  thread-1  count 1  paused  12s in all`, and a line for each elicitation.
fn text(message: &Wire, clock: &System) -> String {
    let Wire::PauseState(state) = message else { return String::new() };
    let received = jiff::Timestamp::from_nanosecond(clock.now().wall.into()).unwrap_or_default();
    let received = received.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S%.3f%:z");
    let now = if state.paused { "paused" } else { "running" };
    let (thread_id, in_all) = (escaped(&state.thread_id), wire::shown(&state.paused_total));
    let mut text = format!("{received}  {thread_id}  count {}  {now}  {in_all} in all\n", state.count);
    elicitations(state, &mut text);
    text
}

fn elicitations(state: &PauseState, text: &mut String) {
    for elicitation in &state.elicitations {
        let [id, holder, reason] =
            [&elicitation.elicitation_id, &elicitation.holder, &elicitation.reason].map(|t| escaped(t));
        *text += &format!("    {id}  {holder}  {reason}\n");
    }
}

/// Waits for INT or TERM.
async fn ended() -> io::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

/// Waits until the other end of standard output is closed, where the system can tell: of a pipe, not of a file.
async fn nobody_reads() {
    // Unchecked: the checked way sets the pipe, which others may share, to non-blocking.
    let out = io::stdout().as_fd().try_clone_to_owned().and_then(pipe::Sender::from_owned_fd_unchecked);
    if let Ok(out) = out {
        let _ = out.ready(Interest::ERROR).await;
        return;
    }
    std::future::pending().await
}
