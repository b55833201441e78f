//! `pausewatch health`: an exit code for health checks of containers, and for scripts that wait for a coordinator.
use super::connection::Connection;
use super::failure::Failure;
use super::output::Output;
use super::{duration, exit, failure, output, replicas, table};
use crate::client::{self, Address, Error, Settings};
use crate::escape::escaped;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// The arguments of `health`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints `serving`, or the problem on standard error. Exit code: 0 serving, 1 not serving, 2 bad usage. With --watch it prints \
each change, and exits with 1 when the connection ends, and with 0 when standard output is closed. With --output json it prints \
the HealthCheckResponse, whatever its status.

--fleet prints a line for each replica that the address names: its role, its term, and how long ago it was sure of the latest state. Exit \
code: 0 if all serve, are of one fleet, and one leads, else 1.")]
pub struct Args {
    /// The service to check, such as pausewatch.v1.ElicitationService [default: the whole server].
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    service: String,
    /// The maximum time to wait for an answer, in all: with several addresses, each has an equal part of it.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = super::duration::parse)]
    timeout: Duration,
    /// Keep running, and print each change.
    #[arg(long)]
    watch: bool,
    /// Check all replicas that the address names, and show who leads.
    #[arg(long, conflicts_with_all = ["service", "watch"])]
    fleet: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

/// Checks once, or with `--watch` until the connection ends.
pub(crate) fn run(args: Args) -> ExitCode {
    let settings = match args.connection.settings() {
        Ok(settings) => settings,
        Err(why) => return usage(&why.to_string()),
    };
    let address = settings.address.clone().unwrap_or_default();
    let runtime = match super::runtime::start() {
        Ok(runtime) => runtime,
        Err(error) => return refused(&format!("start: {error}")),
    };
    let asked = runtime.block_on(ask(&args, &settings));
    runtime.shutdown_background();
    match asked {
        Ok(()) => ExitCode::SUCCESS,
        Err(Unhealthy::Settings(why)) => usage(&why),
        Err(Unhealthy::Output(why)) => refused(&why.to_string()),
        Err(Unhealthy::Status(status)) => refused(&explained(&status, &address)),
        Err(Unhealthy::Fleet(why)) => refused(&why),
        Err(Unhealthy::NotServing(what)) => refused(&format!("the coordinator at {address} {what}")),
    }
}

fn usage(why: &str) -> ExitCode {
    failure::say("health", why);
    ExitCode::from(exit::USAGE)
}

fn refused(why: &str) -> ExitCode {
    failure::say("health", why);
    ExitCode::from(exit::FAILED)
}

enum Unhealthy {
    Settings(String),
    Status(Status),
    NotServing(&'static str),
    Fleet(String),
    Output(Failure),
}

impl From<Status> for Unhealthy {
    fn from(status: Status) -> Self {
        Unhealthy::Status(status)
    }
}

async fn ask(args: &Args, settings: &Settings) -> Result<(), Unhealthy> {
    let wrong = |why: client::ConfigError| Unhealthy::Settings(why.to_string());
    let config = settings.config().map_err(wrong)?;
    config.check().map_err(wrong)?;
    if args.fleet {
        let asked = replicas::ask(&config, args.timeout).await;
        let text = |asked: &Vec<_>| replicas::text(asked, table::terminal_width());
        args.output.show_value(&asked, text).map_err(Unhealthy::Output)?;
        return replicas::problem(&asked).map_or(Ok(()), |why| Err(Unhealthy::Fleet(why)));
    }
    // The first replica that answers determines the result; replicas that do not answer are skipped.
    let (last, others) = config.address.each().split_last().expect("an address has a server");
    // The timeout is shared, because a container's probe may end this command before the last replica is asked.
    let within = args.timeout / u32::try_from(others.len() + 1).unwrap_or(u32::MAX);
    for address in others {
        match ask_one(args, &config, address, within).await {
            Err(Unhealthy::Status(status)) if [Code::Unavailable, Code::DeadlineExceeded].contains(&status.code()) => {}
            other => return other,
        }
    }
    ask_one(args, &config, last, within).await
}

async fn ask_one(args: &Args, config: &client::Config, address: &Address, within: Duration) -> Result<(), Unhealthy> {
    let wrong = |why: client::ConfigError| Unhealthy::Settings(why.to_string());
    let mut health = HealthClient::new(client::channel(address, config).map_err(wrong)?);
    let question = HealthCheckRequest { service: args.service.clone() };
    let late = |_| Status::deadline_exceeded(format!("no answer within {}", duration::show(within)));
    if !args.watch {
        let answer = tokio::time::timeout(within, health.check(question)).await.map_err(late)??;
        let status = answer.into_inner().status();
        if !args.output.is_text() {
            args.output.show_value(&response(status), |_| String::new()).map_err(Unhealthy::Output)?;
            return said(status).map(drop);
        }
        let text = said(status)?;
        return output::print(format!("{text}\n").as_bytes()).map_err(Unhealthy::Output);
    }
    let changes = tokio::time::timeout(within, health.watch(question)).await.map_err(late)??;
    let (mut changes, mut out) = (changes.into_inner(), tokio::io::stdout());
    loop {
        let change = tokio::select! {
            change = changes.message() => change?.ok_or_else(|| Status::unavailable("the connection ended"))?,
            () = output::closed() => return Ok(()),
        };
        let text = match said(change.status()) {
            _ if !args.output.is_text() => response(change.status()).to_string(),
            Ok(text) => text.to_owned(),
            Err(Unhealthy::NotServing(_)) => "not serving".to_owned(),
            Err(other) => return Err(other),
        };
        if !output::print_part(&mut out, &(text + "\n")).await.map_err(Unhealthy::Output)? {
            return Ok(());
        }
    }
}

/// The HealthCheckResponse in the JSON mapping of its proto.
fn response(status: ServingStatus) -> Value {
    json!({ "status": status.as_str_name() })
}

fn said(status: ServingStatus) -> Result<&'static str, Unhealthy> {
    match status {
        ServingStatus::Serving => Ok("serving"),
        ServingStatus::NotServing => Err(Unhealthy::NotServing(
            "does not serve this: it is being stopped, or it is a replica that does not know the latest state, or does not lead",
        )),
        ServingStatus::Unknown | ServingStatus::ServiceUnknown => {
            Err(Unhealthy::NotServing("has no such service: look at --service"))
        }
    }
}

fn explained(status: &Status, address: &Address) -> String {
    // Only errors of the transport have a source. If a connection breaks in the middle of a stream, the code is
    // `Unknown`.
    let is_of_transport = std::error::Error::source(status).is_some();
    match status.code() {
        Code::NotFound => format!("the coordinator at {address} has no such service: look at --service"),
        code if is_of_transport || [Code::Unavailable, Code::DeadlineExceeded].contains(&code) => {
            let cause = failure::cause(&Error::from(status.clone()));
            format!("no answer from a coordinator at {address}: {cause}")
        }
        code => format!("{} ({code:?})", escaped(status.message())),
    }
}
