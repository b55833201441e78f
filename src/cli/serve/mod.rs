//! `pausewatch serve`: the coordinator.
mod access;
mod etcd;
mod log;
mod notify;
mod options;
mod telemetry;
mod watchdog;

pub(crate) use etcd::{member as etcd_member, prefix as etcd_prefix};
pub(crate) use options::Args;

use super::{exit, failure, output};
use crate::server::{Config, Server, StoreConfig};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// Serves until SIGTERM or SIGINT; reads its files again on SIGHUP.
pub(crate) fn run(args: Args) -> ExitCode {
    log::start(args.telemetry.log_format);
    args.log();
    let traces = match args.telemetry.start_traces() {
        Ok(traces) => traces,
        Err(why) => {
            failure::say("serve", &why);
            return ExitCode::from(exit::USAGE);
        }
    };
    let trace_calls = traces.is_some();
    if let Some(why) = args.unreachable() {
        failure::say("serve", &why);
        return ExitCode::from(exit::USAGE);
    }
    let (why, code) = match args.config().map(|config| serve(Config { trace_calls, ..config })) {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(why)) => (why, exit::FAILED),
        Err(why) => (why, exit::USAGE),
    };
    failure::say("serve", &why);
    ExitCode::from(code)
}

fn serve(config: Config) -> Result<(), String> {
    let store = match &config.store {
        StoreConfig::Embedded(directory) => directory.display().to_string(),
        StoreConfig::Memory => "memory".to_owned(),
        StoreConfig::Etcd(replica) => format!("{} of etcd", replica.fleet.prefix),
    };
    let workers = config.workers;
    let _ = raise_open_files();
    use_no_huge_pages();
    let runtime = crate::cli::runtime::start();
    let runtime = runtime.map_err(|error| format!("start: {error}"))?;
    let served = runtime.block_on(async {
        let handler = |kind| signal(kind).map_err(|error| format!("handle signals: {error}"));
        let (mut terminate, mut interrupt) = (handler(SignalKind::terminate())?, handler(SignalKind::interrupt())?);
        let mut hangup = handler(SignalKind::hangup())?;
        // A limit of file sizes is treated as a full disk. Without this handler, the kernel would end the process at
        // that limit.
        let _file_size_limit = handler(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
        // A start may wait for etcd, or read a large store.
        let started = tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            started = Server::start(config) => started,
        };
        let server = started.map_err(|error| error.to_string())?;
        tracing::info!(store, workers, "serving from");
        let reload = server.reload();
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                tracing::info!("SIGHUP: reloading files");
                reload.now();
            }
        });
        let mut listening: String = server.addresses().iter().map(|address| format!("listening {address}\n")).collect();
        if let Some(address) = server.metrics_address() {
            listening += &format!("metrics {address}\n");
        }
        output::print_in_background(listening);
        let manager = notify::Manager::find();
        manager.tell(&format!("READY=1\nSTATUS=Serving at {}", server.addresses().join(", ")));
        let workers = server.inside();
        let shutdown = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = watchdog::keep_alive(&manager, workers) => {}
            }
            manager.tell("STOPPING=1\nSTATUS=Answering what is in flight");
        };
        server.run(shutdown).await;
        Ok(())
    });
    // Calls that outlast the drain must not delay the exit.
    runtime.shutdown_background();
    served
}

/// A connection has buffers of which it uses only a small part. With huge pages, which the allocator asks for, all of
/// them would be in memory: twice as much for each connection (`docs/performance.md`). There is no child process that
/// would inherit this setting.
fn use_no_huge_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "disable transparent huge pages: connections take more memory");
    }
}

/// Raises the soft limit of open files: a watcher needs a connection, or shares one, and the usual limit of 1,024 is
/// for programs that use select(2). Returns the previous limit, for programs that this one starts; `None`: it was not
/// raised.
pub(super) fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    limit.current.filter(|_| raised.is_ok() && limit.current != limit.maximum)
}
