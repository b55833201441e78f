//! `pausewatch decrement`: closes one elicitation.
use super::{call, connection, escape::escaped, output::Output, wire};
use crate::client::DecrementElicitationRequest;
use std::process::ExitCode;

/// The arguments of `decrement`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The elicitation to close, as `increment` printed it [default: the oldest one that was opened without --ttl, else
    /// the oldest].
    #[arg(value_name = "ELICITATION_ID")]
    elicitation_id: Option<String>,
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

/// Closes one elicitation.
pub fn run(args: Args) -> ExitCode {
    call::run("decrement", &args.connection, async |caller| {
        let thread_id = caller.thread_id(&args.thread)?;
        let (elicitation_id, request_id) = (args.elicitation_id, args.request_id);
        let request = DecrementElicitationRequest { thread_id: thread_id.clone(), elicitation_id, request_id };
        let response = caller.client.decrement_elicitation(request).await?;
        args.output.show("DecrementElicitationResponse", &response, |response| {
            let thread_id = escaped(&thread_id);
            match response.count {
                0 => format!("{thread_id}: running\n"),
                count => format!("{thread_id}: still paused, {}\n", wire::open(count)),
            }
        })
    })
}
