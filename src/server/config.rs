//! The configuration of a server, and the errors of its start.
use super::access::AccessConfig;
use super::audit;
#[cfg(feature = "etcd")]
use super::fleet::ReplicaConfig;
use super::listen::{Listen, ListenError, Tcp};
use super::tls::TlsFiles;
use crate::coordinator::quota::Limits;
use crate::coordinator::store::OpenError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; at least one.
    pub listen: Vec<Listen>,
    /// Where the state is kept.
    pub store: StoreConfig,
    /// The lease of an increment without `ttl`; `None`: it has no end.
    pub anonymous_ttl: Option<Duration>,
    /// The maximum length of a pause, which no renewal extends; `None`: any.
    pub max_pause: Option<Duration>,
    /// Serve plain text also on addresses other than loopback.
    pub insecure: bool,
    /// TLS on every TCP listener.
    pub tls: Option<TlsFiles>,
    /// Serve the Connect protocol and the page too, over HTTP/1.1 and HTTP/2.
    pub http: bool,
    /// Host names that browsers and other HTTP/1.1 clients may use, besides IP addresses and `localhost`.
    pub web_hosts: Vec<String>,
    /// Access control for every listener; `None`: every client may make every call.
    pub access: Option<AccessConfig>,
    /// Threads that serve connections.
    pub workers: usize,
    /// The limits of callers.
    pub limits: Limits,
    /// Where metrics are served, as HOST:PORT; `None`: nowhere.
    pub metrics: Option<String>,
    /// Serve metrics also on addresses other than loopback.
    pub metrics_insecure: bool,
    /// Where the audit trail is written; `None`: nowhere.
    pub audit: Option<audit::Config>,
    /// Log every pause and its end, without the limit of lines per second.
    pub log_every_pause: bool,
    /// Create a span for each call, with the global tracer of OpenTelemetry (feature `otel`).
    pub trace_calls: bool,
}

impl Default for Config {
    /// The defaults of `pausewatch serve`, but with a store that keeps nothing.
    fn default() -> Self {
        Config {
            listen: vec![Listen::Tcp("127.0.0.1:7420".into())],
            store: StoreConfig::Memory,
            anonymous_ttl: Some(Duration::from_secs(24 * 60 * 60)),
            max_pause: None,
            insecure: false,
            tls: None,
            http: true,
            web_hosts: Vec::new(),
            access: None,
            workers: 1,
            limits: Limits::default(),
            metrics: None,
            metrics_insecure: false,
            audit: None,
            log_every_pause: false,
            trace_calls: false,
        }
    }
}

impl Config {
    /// Files that are reloaded at run time.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let tls = self.tls.iter().flat_map(TlsFiles::paths);
        let files = tls.chain(self.access.iter().flat_map(AccessConfig::files));
        #[cfg(feature = "etcd")]
        let files = files.chain(self.replica().into_iter().flat_map(ReplicaConfig::files));
        files.collect()
    }

    #[cfg(feature = "etcd")]
    fn replica(&self) -> Option<&ReplicaConfig> {
        match &self.store {
            StoreConfig::Etcd(replica) => Some(replica),
            _ => None,
        }
    }

    /// The protocol over TCP.
    pub(super) fn tcp(&self) -> Tcp {
        match (&self.tls, self.insecure) {
            (Some(_), _) => Tcp::Tls,
            (None, true) => Tcp::Insecure,
            (None, false) => Tcp::Plain,
        }
    }
}

/// Where the state is kept.
#[derive(Clone, Debug)]
pub enum StoreConfig {
    /// In this directory.
    Embedded(PathBuf),
    /// In memory: a restart forgets it.
    Memory,
    /// In etcd, together with other replicas.
    #[cfg(feature = "etcd")]
    Etcd(Box<ReplicaConfig>),
}

/// Why a server does not start. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A certificate, a key or a token.
    #[error("{0}")]
    Security(String),
    /// A listener.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The audit trail.
    #[error("open the audit trail {0}: {1}")]
    Audit(String, #[source] io::Error),
    /// The system.
    #[error("start a worker: {0}")]
    Worker(#[source] io::Error),
}
