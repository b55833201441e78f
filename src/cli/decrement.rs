//! `pausewatch decrement`: closes one elicitation.
use super::{call::ThreadCall, format};
use crate::client::{Client, DecrementElicitationRequest};
use crate::escape::escaped;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The elicitation to close, as `increment` printed it [default: the oldest one that was opened without --ttl, else
    /// the oldest].
    #[arg(value_name = "ELICITATION_ID")]
    elicitation_id: Option<String>,
    /// An id for this request: a repeated request with the same id has no further effect.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    request_id: String,
    #[command(flatten)]
    call: ThreadCall,
}

pub(crate) fn run(args: Args) -> ExitCode {
    let Args { elicitation_id, request_id, call } = args;
    let decrement = async |client: Client, thread_id| {
        client.decrement_elicitation(DecrementElicitationRequest { thread_id, elicitation_id, request_id }).await
    };
    call.run("decrement", "DecrementElicitationResponse", decrement, |thread_id, response| match response.count {
        0 => format!("{}: running\n", escaped(thread_id)),
        count => format!("{}: still paused, {}\n", escaped(thread_id), format::open(count)),
    })
}
