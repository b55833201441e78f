//! `pausewatch serve`: the coordinator.
mod access;
mod insight;
mod options;

pub use options::Args;

use super::exit;
use crate::server::{Config, Server};
use std::io::Write;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// Serves until SIGTERM or SIGINT; reads its files again on SIGHUP.
pub fn run(args: Args) -> ExitCode {
    log("info");
    args.log();
    let (why, code) = match args.config().map(serve) {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(why)) => (why, exit::FAILED),
        Err(why) => (why, exit::USAGE),
    };
    eprintln!("pausewatch serve: {why}");
    ExitCode::from(code)
}

fn serve(config: Config) -> Result<(), String> {
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("start: {error}"))?;
    let served = runtime.block_on(async {
        let handler = |kind| signal(kind).map_err(|error| format!("handle signals: {error}"));
        let (mut terminate, mut interrupt) = (handler(SignalKind::terminate())?, handler(SignalKind::interrupt())?);
        let mut hangup = handler(SignalKind::hangup())?;
        let server = Server::start(config).await.map_err(|error| error.to_string())?;
        let reload = server.reload();
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                reload.now();
            }
        });
        let mut out = std::io::stdout().lock();
        for address in server.addresses() {
            // Whoever started us may not care to read it.
            let _ = writeln!(out, "listening {address}");
        }
        if let Some(address) = server.metrics_address() {
            let _ = writeln!(out, "metrics {address}");
        }
        let _ = out.flush();
        drop(out);
        let shutdown = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        server.run(shutdown).await;
        Ok(())
    });
    // What the drain did not wait for must not hold the process.
    runtime.shutdown_background();
    served
}

/// To standard error, as RUST_LOG says, or else `usual`; standard output is for what others read.
pub(super) fn log(usual: &str) {
    use std::io::IsTerminal;
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(usual));
    let out = std::io::stderr;
    // Already set: then somebody else sees to it.
    let _ =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(out).with_ansi(out().is_terminal()).try_init();
}

/// A watcher is a connection or a part of one: the usual soft limit of 1,024 files is for programs that use select(2).
pub(super) fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
