//! `pausewatch increment`: opens one elicitation and prints its id.
//!
//! 1. A signal that ends this process before the id is printed closes the elicitation again ([`interrupt`]), unless the caller has
//!    named the call (`--request-id`).
use super::failure::{Failure, say};
use super::interrupt::{self, Interrupted, ending_signals, may_be_open};
use super::{
    call::ThreadCall,
    format,
    output::{Output, print},
    unanswered::look_into,
};
use crate::client::{
    Client, DecrementElicitationRequest, Elicitation, Error, IncrementElicitationRequest, IncrementElicitationResponse,
    Settings,
};
use crate::escape::escaped;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use std::{
    io,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::task::spawn_blocking;
use uuid::Uuid;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Text output is the id of the elicitation and nothing else, to close exactly this one later:
  id=$(pausewatch increment --reason 'Delete the branch?')
  pausewatch decrement \"$id\"

INT, TERM, HUP and QUIT end it by that signal. If the id is not printed yet, the elicitation is closed first, for which it waits at most \
5 s, or until a second signal; with --request-id it is not: the same call again prints the id.")]
pub struct Args {
    /// The question to the person, shown by `list`, `get` and `watch`.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    /// The program that asks, such as git[1234]@laptop.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    holder: String,
    /// The length of the lease, 1s to 24h: the elicitation is closed if nobody renews it in time [default: the
    /// coordinator's].
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse_ttl)]
    ttl: Option<Duration>,
    /// An id for this request: a repeated request with the same id has no further effect.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    request_id: String,
    #[command(flatten)]
    call: ThreadCall,
}

impl Args {
    /// Whether a signal closes the elicitation before it ends this process.
    pub(super) fn catches_signals(&self) -> bool {
        self.request_id.is_empty()
    }
}

pub(crate) fn run(args: Args) -> ExitCode {
    let Args { reason, holder, ttl, request_id, call } = args;
    let mut request =
        IncrementElicitationRequest { reason, holder, ttl: ttl.map(format::to_wire), ..Default::default() };
    call.run_with("increment", async |client, settings, thread_id, output| {
        request.thread_id = thread_id;
        if request_id.is_empty() {
            request.request_id = Uuid::new_v4().to_string();
            return Increment { client, request, output }.run(settings).await;
        }
        // The caller can call again, and gets the same answer. If a signal closed the elicitation, that answer would be wrong.
        request.request_id = request_id;
        show(output, client.increment_elicitation(request).await?)
    })
}

/// An increment whose elicitation nobody knows until its id is printed.
struct Increment {
    client: Client,
    request: IncrementElicitationRequest,
    output: Output,
}

impl Increment {
    async fn run(&self, settings: &Settings) -> Result<(), Failure> {
        let mut signals = ending_signals().map_err(|error| Failure::System("catch signals".into(), error))?;
        let open = async || self.client.increment_elicitation(self.request.clone()).await;
        let opened = interrupt::open(async || signals.recv().await, open, async |opened| self.close(opened).await);
        let response = match opened.await.map_err(|interrupted| self.interrupted(interrupted))? {
            Ok(response) => response,
            Err(error) => {
                if may_be_open(&error) {
                    self.warn();
                }
                return tokio::select! {
                    failure = look_into(error, settings) => Err(failure),
                    signal = signals.recv() => Err(Failure::Interrupted(signal)),
                };
            }
        };
        // It blocks if nobody reads a pipe that is full.
        let (output, printed, first) = (self.output, response.clone(), Arc::new(First::default()));
        let is_first = first.clone();
        let mut printing = spawn_blocking(move || show_if(output, printed, || is_first.claim()));
        let signal = tokio::select! {
            biased;
            result = &mut printing => return result.expect("it does not panic"),
            signal = signals.recv() => signal,
        };
        if first.claim() {
            let close = async |opened: &_| self.close(opened).await;
            return Err(self.interrupted(interrupt::undo(signal, &response, close).await));
        }
        // Somebody may read the id, so the elicitation is theirs.
        tokio::select! {
            _ = printing => {}
            () = interrupt::further_signal() => {}
        }
        Err(Failure::Interrupted(signal))
    }

    async fn close(&self, opened: &IncrementElicitationResponse) -> Result<(), Error> {
        let Some(Elicitation { thread_id, elicitation_id, .. }) = opened.elicitation.clone() else { return Ok(()) };
        let request_id = self.request.request_id.clone();
        let request = DecrementElicitationRequest { thread_id, elicitation_id: Some(elicitation_id), request_id };
        self.client.decrement_elicitation(request).await.map(drop)
    }

    fn interrupted(&self, Interrupted { signal, is_undone }: Interrupted) -> Failure {
        if !is_undone {
            self.warn();
        }
        Failure::Interrupted(signal)
    }

    /// The lease may be a day.
    fn warn(&self) {
        let id = &self.request.request_id;
        say(
            "increment",
            &format!("the thread may be paused: the same command with --request-id {id} finds out, and counts once"),
        );
    }
}

/// The printing of the id, or a signal before it: one of them comes first.
#[derive(Default)]
struct First(AtomicBool);

impl First {
    /// Whether the caller is the first.
    fn claim(&self) -> bool {
        !self.0.swap(true, Relaxed)
    }
}

/// Prints the id.
fn show(output: Output, response: IncrementElicitationResponse) -> Result<(), Failure> {
    show_if(output, response, || true)
}

/// Prints the id, unless `may_print`, which is called when the output would not block, returns false.
fn show_if(
    output: Output,
    response: IncrementElicitationResponse,
    may_print: impl FnOnce() -> bool,
) -> Result<(), Failure> {
    let text = output.text_of("IncrementElicitationResponse", &response, text)?;
    wait_until_writable();
    if !may_print() {
        return Ok(());
    }
    let shown = print(text.as_bytes());
    // The output failed, for example on a full disk. Nobody could close the elicitation without its id.
    if let Some(elicitation) = response.elicitation.filter(|_| shown.is_err()) {
        say("increment", &format!("the thread is paused: the elicitation {} is open", elicitation.elicitation_id));
    }
    shown
}

/// A pipe has room then for all that is printed here (`PIPE_BUF`, pipe(7)). An output that cannot be examined fails when it is written.
fn wait_until_writable() {
    while poll(&mut [PollFd::new(&io::stdout(), PollFlags::OUT)], None) == Err(Errno::INTR) {}
}

fn text(response: &IncrementElicitationResponse) -> String {
    if response.watchers == 0 {
        say("increment", "no exec server watches this thread now: the limits of its commands may keep running");
    }
    response.elicitation.iter().map(|elicitation| escaped(&elicitation.elicitation_id) + "\n").collect()
}
