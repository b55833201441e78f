//! `pausewatch increment`: opens one elicitation and prints its id.
use super::{call, connection, escape::escaped, failure::say, output::Output, wire};
use crate::client::{IncrementElicitationRequest, IncrementElicitationResponse};
use std::{process::ExitCode, time::Duration};

/// The arguments of `increment`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Text output is the id of the elicitation and nothing else, to close exactly this one later:
  id=$(pausewatch increment --reason 'Delete the branch?')
  pausewatch decrement \"$id\"")]
pub struct Args {
    /// What the person is asked, for those who look on.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    /// Who asks: a program, a host, a process id.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    holder: String,
    /// The lease, 1s to 24h: not renewed in time, the elicitation closes by itself [default: the coordinator's].
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse_ttl)]
    ttl: Option<Duration>,
    /// Names this call: made again with the same name, it counts once.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    request_id: String,
    #[command(flatten)]
    thread: connection::Thread,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: connection::Connection,
}

/// Opens one elicitation.
pub fn run(args: Args) -> ExitCode {
    call::run("increment", &args.connection, async |caller| {
        let thread_id = caller.thread_id(&args.thread)?;
        let ttl = args.ttl.map(wire::duration);
        let (request_id, reason, holder) = (args.request_id, args.reason, args.holder);
        let request = IncrementElicitationRequest { thread_id, request_id, reason, holder, ttl };
        let response = caller.client.increment_elicitation(request).await?;
        args.output.show("IncrementElicitationResponse", &response, text)
    })
}

fn text(response: &IncrementElicitationResponse) -> String {
    if response.watchers == 0 {
        say("increment", "nobody watches this thread now: its commands' time may run on");
    }
    response.elicitation.iter().map(|elicitation| format!("{}\n", escaped(&elicitation.elicitation_id))).collect()
}
