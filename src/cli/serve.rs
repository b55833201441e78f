//! `pausewatch serve`: the coordinator.
use super::exit;
use super::serve_insight::{InsightArgs, LimitArgs};
use crate::server::{Config, Listen, Server, StoreConfig, TlsFiles};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The arguments of `serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen: HOST:PORT (port 0: any) or unix:PATH. Repeatable.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420")]
    listen: Vec<Listen>,
    /// Serve plain text off loopback too: whoever is on the network can read and change what is sent.
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    tls: Tls,
    /// Where the state is kept. `memory` forgets it when the server ends.
    #[arg(long, value_name = "STORE", default_value = "embedded")]
    store: Store,
    /// The directory of the embedded store [default: $XDG_STATE_HOME/pausewatch, else ~/.local/state/pausewatch].
    #[arg(long, value_name = "DIR", env = "PAUSEWATCH_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// The lease of an elicitation whose increment asks for none, such as 90s, 10m or 24h; 0: it never ends by itself.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = super::duration::parse_lease)]
    anonymous_ttl: Duration,
    /// Threads that serve connections [default: half the cores, at most 8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: Option<u16>,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    insight: InsightArgs,
}

/// With it, every TCP listener speaks TLS, and Unix sockets stay as they are.
#[derive(Debug, clap::Args)]
struct Tls {
    /// Serve TLS on every TCP listener, with this certificate chain, a PEM file. It is read again when it changes, and on
    /// SIGHUP.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Take only clients with a certificate of one of these authorities, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
}

impl Tls {
    fn files(self) -> Option<TlsFiles> {
        // clap takes one only with the other.
        let (cert, key) = self.tls_cert.zip(self.tls_key)?;
        Some(TlsFiles { cert, key, client_ca: self.tls_client_ca })
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Store {
    Embedded,
    Memory,
}

impl Args {
    fn config(self) -> Result<Config, String> {
        let store = match self.store {
            Store::Memory => StoreConfig::Memory,
            Store::Embedded => StoreConfig::Embedded(match self.data_dir {
                Some(directory) => directory,
                None => default_data_dir().ok_or("neither XDG_STATE_HOME nor HOME is set: say --data-dir")?,
            }),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = self.workers.map_or((cores / 2).clamp(1, 8), usize::from);
        let anonymous_ttl = Some(self.anonymous_ttl).filter(|ttl| !ttl.is_zero());
        let tls = self.tls.files();
        let limits = self.limits.limits();
        let config = Config {
            listen: self.listen,
            store,
            anonymous_ttl,
            insecure: self.insecure,
            tls,
            workers,
            limits,
            ..Config::default()
        };
        Ok(self.insight.apply(config))
    }
}

fn default_data_dir() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").filter(|path| path.is_absolute());
    Some(state.or_else(|| Some(set("HOME")?.join(".local/state")))?.join("pausewatch"))
}

/// Serves until SIGTERM or SIGINT; reads its files again on SIGHUP.
pub fn run(args: Args) -> ExitCode {
    match args.config().and_then(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pausewatch serve: {why}");
            ExitCode::from(exit::FAILED)
        }
    }
}

fn serve(config: Config) -> Result<(), String> {
    log();
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

/// To standard error, as RUST_LOG says (`info` if it says nothing); standard output is for the addresses.
fn log() {
    use std::io::IsTerminal;
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let out = std::io::stderr;
    // Already set: then somebody else sees to it.
    let _ =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(out).with_ansi(out().is_terminal()).try_init();
}

/// A watcher is a connection or a part of one: the usual soft limit of 1,024 files is for programs that use select(2).
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
