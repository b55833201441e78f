//! `pausewatch renew`: extends one lease.
use super::{call, connection, escape::escaped, output::Output, wire};
use crate::client::{RenewElicitationRequest, RenewElicitationResponse};
use std::{process::ExitCode, time::Duration};

/// The arguments of `renew`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The open elicitation, as `increment` printed it.
    #[arg(value_name = "ELICITATION_ID")]
    elicitation_id: String,
    /// The new length of the lease from now on, 1s to 24h [default: the length that it has].
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse_ttl)]
    ttl: Option<Duration>,
    #[command(flatten)]
    thread: connection::Thread,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: connection::Connection,
}

/// Extends one lease.
pub fn run(args: Args) -> ExitCode {
    call::run("renew", &args.connection, async |caller| {
        let thread_id = caller.thread_id(&args.thread)?;
        let (elicitation_id, ttl) = (args.elicitation_id, args.ttl.map(wire::duration));
        let request = RenewElicitationRequest { thread_id, elicitation_id, ttl };
        let response = caller.client.renew_elicitation(request).await?;
        args.output.show("RenewElicitationResponse", &response, text)
    })
}

fn text(response: &RenewElicitationResponse) -> String {
    let elicitation = response.elicitation.iter();
    elicitation
        .map(|elicitation| {
            let until = match &elicitation.expire_time {
                Some(time) => format!("open until {}", wire::local_time(time)),
                None => "open, without a lease".into(),
            };
            format!("{}: {until}\n", escaped(&elicitation.elicitation_id))
        })
        .collect()
}
