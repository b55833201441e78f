//! The options of `serve`. One field defines an option: its flag, its variable, its key in the config file, its check
//! in `config check` and its paragraph in the manual are derived from it (`cli/option_value.rs`).
use super::access::Access;
use super::etcd::EtcdArgs;
use super::telemetry::{LimitArgs, TelemetryArgs};
use crate::cli::{data_dir, duration, option_value::OptionValue};
use crate::server::{Config, Listen, StoreConfig, TlsFiles};
use std::path::PathBuf;
use std::time::Duration;

const SOURCES: &str = "Each option can also be set by a variable (--anonymous-ttl: PAUSEWATCH_SERVE_ANONYMOUS_TTL, unless \
                       another is named above; several values with commas between them) or in the config file \
                       (anonymous_ttl = \"10m\" in its table [serve]). An option overrides the variable, which overrides the file.";

/// The arguments of `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = SOURCES)]
pub struct Args {
    /// Where to listen: HOST:PORT (port 0: any) or unix:PATH. Repeatable.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420")]
    listen: Vec<Listen>,
    /// Allow plain text outside loopback: others on the network can read and change it.
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    tls: Tls,
    #[command(flatten)]
    web: Web,
    #[command(flatten)]
    access: Access,
    /// The store of the state. `embedded` is a directory; `etcd` is shared by several servers, the replicas of a fleet; `memory`
    /// loses it when the server exits.
    #[arg(long, value_name = "STORE", default_value = "embedded")]
    store: Store,
    /// The directory of the embedded store [env: PAUSEWATCH_DATA_DIR] [default: $XDG_STATE_HOME/pausewatch, else
    /// ~/.local/state/pausewatch].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// The lease of elicitations that are opened without one, such as 90s, 10m or 24h; 0: they never expire.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration::parse_lease)]
    anonymous_ttl: Duration,
    /// The maximum length of a pause, such as 8h, from the increment that began it: then all elicitations of its thread end,
    /// however often they are renewed. 0: none.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration::parse_max_pause)]
    max_pause: Duration,
    /// Threads that serve connections [default: half the cores, at most 8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: Option<u16>,
    /// The config file, TOML, with these options in its table `[serve]` [env: PAUSEWATCH_CONFIG] [default:
    /// $XDG_CONFIG_HOME/pausewatch/config.toml, else ~/.config/pausewatch/config.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    pub(super) telemetry: TelemetryArgs,
    /// Each option with its values and their source.
    #[arg(skip)]
    pub(crate) origins: Vec<OptionValue>,
}

/// TLS for every TCP listener; Unix sockets are not affected. The options may come from several sources, so clap cannot check
/// that they belong together.
#[derive(Debug, clap::Args)]
struct Tls {
    /// Serve TLS on every TCP listener, with the certificate chain in this PEM file. It is reloaded when it changes, and on
    /// SIGHUP.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, a PEM file.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate of an authority in this PEM file.
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
}

impl Tls {
    fn files(self) -> Result<Option<TlsFiles>, String> {
        match self {
            Tls { tls_cert: Some(cert), tls_key: Some(key), tls_client_ca: client_ca } => {
                Ok(Some(TlsFiles { cert, key, client_ca }))
            }
            Tls { tls_cert: None, tls_key: None, tls_client_ca: None } => Ok(None),
            Tls { tls_cert: None, .. } => Err("--tls-key and --tls-client-ca need --tls-cert too".into()),
            Tls { tls_key: None, .. } => Err("--tls-cert needs --tls-key too".into()),
        }
    }
}

/// HTTP/JSON and the page.
#[derive(Debug, clap::Args)]
struct Web {
    /// Serve gRPC alone: no HTTP/JSON (docs/http.md) and no page.
    #[arg(long)]
    no_http: bool,
    /// A name by which browsers and other clients of HTTP/1.1 reach this server, such as pausewatch.example.com; addresses and
    /// localhost need none. A request for any other name is refused, because it could come from a hostile web page. Repeatable.
    #[arg(long, value_name = "NAME", value_parser = web_host)]
    web_host: Vec<String>,
}

impl Web {
    fn apply(self, config: Config) -> Result<Config, String> {
        if self.no_http && !self.web_host.is_empty() {
            return Err("--web-host has no effect with --no-http: leave one of them out".into());
        }
        Ok(Config { http: !self.no_http, web_hosts: self.web_host, ..config })
    }
}

/// A host name, as `Host` has it without the port.
fn web_host(text: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(is_allowed)
    };
    match text.len() <= 253 && text.split('.').all(is_label) {
        true => Ok(text.to_owned()),
        false => Err("expected a host name without scheme and port, such as pausewatch.example.com".into()),
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Store {
    Embedded,
    Etcd,
    Memory,
}

impl Args {
    /// Logs each option with its value and source.
    pub(super) fn log(&self) {
        let set = self.origins.iter().filter(|option| !option.values.is_empty());
        let options: Vec<_> = set.map(ToString::to_string).collect();
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "starting with {}", options.join(", "));
    }

    /// Why this server cannot be a replica of a fleet. `config` does not check this, because in a file that several
    /// replicas share it is missing: each replica sets it by an option.
    pub(super) fn unreachable(&self) -> Option<String> {
        matches!(self.store, Store::Etcd).then(|| self.etcd.unreachable(&self.listen)).flatten()
    }

    /// The configuration of the server.
    ///
    /// # Errors
    /// The options conflict, or a required one is missing.
    pub(crate) fn config(self) -> Result<Config, String> {
        let store = match self.store {
            Store::Etcd => self.etcd.store()?,
            Store::Memory => self.etcd.unused(StoreConfig::Memory)?,
            Store::Embedded => {
                let directory = data_dir::or_default(self.data_dir)?;
                self.etcd.unused(StoreConfig::Embedded(directory))?
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = self.workers.map_or((cores / 2).clamp(1, 8), usize::from);
        let anonymous_ttl = Some(self.anonymous_ttl).filter(|ttl| !ttl.is_zero());
        let max_pause = Some(self.max_pause).filter(|max| !max.is_zero());
        let (tls, access) = (self.tls.files()?, self.access.config()?);
        let (listen, insecure, limits) = (self.listen, self.insecure, self.limits.limits());
        let config = Config {
            listen,
            store,
            anonymous_ttl,
            max_pause,
            insecure,
            tls,
            access,
            workers,
            limits,
            ..Config::default()
        };
        self.telemetry.apply(self.web.apply(config)?)
    }
}

#[cfg(test)]
mod tests {
    use super::web_host;

    #[test]
    fn a_web_host_is_a_name_alone() {
        for name in ["pausewatch.lan", "localhost", "a_b-c.Example.com"] {
            assert_eq!(web_host(name), Ok(name.to_owned()));
        }
        for bad in ["", "http://a", "a:7420", "a/b", "a..b", "*.example.com", "a b", "ä.de", "[::1]"] {
            assert!(web_host(bad).is_err(), "{bad}");
        }
    }
}
