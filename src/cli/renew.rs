//! `pausewatch renew`: extends one lease.
use super::{call::ThreadCall, format};
use crate::client::{Client, Elicitation, RenewElicitationRequest};
use crate::escape::escaped;
use std::{process::ExitCode, time::Duration};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The open elicitation, as `increment` printed it.
    #[arg(value_name = "ELICITATION_ID")]
    elicitation_id: String,
    /// The new length of the lease, from now, 1s to 24h [default: its present length].
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse_ttl)]
    ttl: Option<Duration>,
    #[command(flatten)]
    call: ThreadCall,
}

pub(crate) fn run(args: Args) -> ExitCode {
    let Args { elicitation_id, ttl, call } = args;
    let renew = async |client: Client, thread_id| {
        let ttl = ttl.map(format::to_wire);
        client.renew_elicitation(RenewElicitationRequest { thread_id, elicitation_id, ttl }).await
    };
    call.run("renew", "RenewElicitationResponse", renew, |_, response| response.elicitation.iter().map(text).collect())
}

fn text(elicitation: &Elicitation) -> String {
    let state = match &elicitation.expire_time {
        Some(time) => format!("open until {}", format::local_time(time)),
        None => "open, without a lease".into(),
    };
    format!("{}: {state}\n", escaped(&elicitation.elicitation_id))
}
