//! `pausewatch increment`: opens one elicitation and prints its id.
use super::{call::ThreadCall, failure::say, format};
use crate::client::{Client, IncrementElicitationRequest, IncrementElicitationResponse};
use crate::escape::escaped;
use std::{process::ExitCode, time::Duration};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Text output is the id of the elicitation and nothing else, to close exactly this one later:
  id=$(pausewatch increment --reason 'Delete the branch?')
  pausewatch decrement \"$id\"")]
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

pub(crate) fn run(args: Args) -> ExitCode {
    let Args { reason, holder, ttl, request_id, call } = args;
    let mut opened = None;
    let increment = async |client: Client, thread_id| {
        let ttl = ttl.map(format::to_wire);
        let request = IncrementElicitationRequest { thread_id, request_id, reason, holder, ttl };
        let response = client.increment_elicitation(request).await?;
        opened.clone_from(&response.elicitation);
        Ok(response)
    };
    let code = call.run("increment", "IncrementElicitationResponse", increment, |_, response| text(response));
    // The output failed, for example on a full disk. Nobody could close the elicitation without its id.
    if let Some(elicitation) = opened.filter(|_| code != ExitCode::SUCCESS) {
        say("increment", &format!("the thread is paused: the elicitation {} is open", elicitation.elicitation_id));
    }
    code
}

fn text(response: &IncrementElicitationResponse) -> String {
    if response.watchers == 0 {
        say("increment", "no exec server watches this thread now: the limits of its commands may keep running");
    }
    response.elicitation.iter().map(|elicitation| escaped(&elicitation.elicitation_id) + "\n").collect()
}
