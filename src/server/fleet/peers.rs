//! The connection from a follower to its leader, for looks and forwarded calls.
use super::clock::ReplicaClock;
use super::leading::Vouched;
use super::look::{Answer, look};
use super::looking::{LeaderLink, Looking};
use crate::causes::with_causes;
use crate::clock::Clock;
use crate::coordinator::store::etcd::{Fleet, Leader};
use crate::server::named_file;
use crate::server::tls::{TlsFiles, certificates};
use ring::hmac;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

const CONNECT_TIMEOUT: Duration = Duration::from_millis(700);
const PING_INTERVAL: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// A leader that is another replica, and the connection to it.
#[derive(Clone)]
pub(crate) struct Link {
    pub(super) replica: u64,
    pub(super) term: u64,
    pub(super) channel: Channel,
    address: String,
    /// Whether the address is also that of this replica, which then does not reach the leader.
    is_own: bool,
    key: hmac::Key,
}

impl LeaderLink for Link {
    fn term(&self) -> u64 {
        self.term
    }

    fn address(&self) -> &str {
        &self.address
    }

    async fn look(self, anew: bool) -> Result<Vouched, String> {
        let answer = look(self.channel, &self.key, self.replica, anew).await.map_err(|status| match self.is_own {
            true => format!("this replica has the same --advertise. {}", with_causes(status.message(), &status)),
            false => with_causes(status.message(), &status),
        })?;
        let Answer { term, clock, horizon, seq, .. } = answer;
        Ok(Vouched { term, clock, horizon, seq })
    }
}

/// The files for connections to other replicas over TLS.
#[derive(Clone, Debug)]
pub(crate) struct PeerFiles {
    /// The authorities of the certificates of other replicas; `None`: those of the system.
    ca: Option<PathBuf>,
    /// The certificate and key of this server, for servers that require a client certificate.
    own: Option<(PathBuf, PathBuf)>,
}

impl PeerFiles {
    pub(crate) fn new(ca: Option<&PathBuf>, own: Option<&TlsFiles>) -> Self {
        let own = own.filter(|own| own.client_ca.is_some()).map(|own| (own.cert.clone(), own.key.clone()));
        PeerFiles { ca: ca.cloned(), own }
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let own = self.own.iter().flat_map(|(cert, key)| [cert, key]);
        self.ca.iter().chain(own).cloned().collect()
    }

    /// Reads the files.
    ///
    /// # Errors
    /// A file is invalid.
    pub(crate) fn read(&self) -> Result<ClientTlsConfig, String> {
        let read = |path: &Path| named_file::read(path).map_err(|why| format!("read {}: {why}", path.display()));
        let mut tls = ClientTlsConfig::new();
        if let Some(ca) = &self.ca {
            certificates(ca).map_err(|why| format!("--peer-ca {}: {why}", ca.display()))?;
            tls = tls.ca_certificate(Certificate::from_pem(read(ca)?));
        }
        if let Some((cert, key)) = &self.own {
            tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
        }
        // Invalid settings show only when they are used.
        let used = Endpoint::from_static("https://replica").tls_config(tls.clone());
        let names: Vec<_> = self.paths().iter().map(|path| path.display().to_string()).collect();
        used.map_err(|error| format!("{}: {}", names.join(", "), with_causes(&error.to_string(), &error)))?;
        Ok(if self.ca.is_some() { tls } else { tls.with_native_roots() })
    }
}

/// Keeps a connection to the leader.
pub(crate) struct Peers {
    fleet: Arc<Fleet>,
    machine: Arc<dyn Clock>,
    clock: Arc<ReplicaClock>,
    key: hmac::Key,
    files: PeerFiles,
    tls: RwLock<ClientTlsConfig>,
    /// There are new certificates.
    renewed: Notify,
    link: watch::Sender<Option<Link>>,
}

impl Peers {
    /// # Errors
    /// A file is invalid.
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        machine: Arc<dyn Clock>,
        clock: Arc<ReplicaClock>,
        files: PeerFiles,
    ) -> Result<Self, String> {
        let tls = RwLock::new(files.read()?);
        let key = hmac::Key::new(hmac::HMAC_SHA256, fleet.peer_key());
        let (renewed, link) = (Notify::new(), watch::Sender::new(None));
        Ok(Peers { fleet, machine, clock, key, files, tls, renewed, link })
    }

    /// Reads the files again, and reconnects. If one is invalid, everything stays as it was.
    ///
    /// # Errors
    /// Which file is invalid, and why.
    pub(crate) fn reload(&self) -> Result<(), String> {
        let new = self.files.read()?;
        *self.tls.write().expect("no panic while locked") = new;
        self.renewed.notify_one();
        Ok(())
    }

    /// The connection to the current leader.
    pub(crate) fn links(&self) -> watch::Receiver<Option<Link>> {
        self.link.subscribe()
    }

    /// Keeps a connection to the current leader and sends it looks, forever. `own`: the address of this replica.
    pub(super) async fn follow_leader(&self, own: &str) {
        let (fleet, machine) = (&self.fleet, self.machine.clone());
        let (progress, leader_clock) = (fleet.progress().clone(), fleet.leader_clock().clone());
        let looking = Looking { progress, leader_clock, machine, clock: self.clock.clone() };
        tokio::join!(self.connect(own), looking.compare_clocks(self.links()), looking.look(self.links()));
    }

    async fn connect(&self, own: &str) {
        let mut leader = self.fleet.leader();
        loop {
            let known = leader.borrow_and_update().clone().filter(|leader| leader.replica != self.fleet.replica());
            let link = known.and_then(|leader| {
                let channel = self.channel(&leader.address)?;
                let Leader { replica, term, address } = leader;
                let is_own = address == own;
                Some(Link { replica, term, channel, address, is_own, key: self.key.clone() })
            });
            self.link.send_replace(link);
            tokio::select! {
                changed = leader.changed() => if changed.is_err() {
                    // The sender lives as long as the fleet.
                    pending().await
                },
                () = self.renewed.notified() => {}
            }
        }
    }

    fn channel(&self, address: &str) -> Option<Channel> {
        let endpoint = match address.starts_with("https://") {
            true => {
                let tls = self.tls.read().expect("no panic while locked").clone();
                Endpoint::from_shared(address.to_owned()).and_then(|endpoint| endpoint.tls_config(tls))
            }
            false => Endpoint::from_shared(format!("http://{}", address.trim_start_matches("http://"))),
        };
        let endpoint = endpoint.inspect_err(|error| tracing::warn!(address, %error, "the leader's address is wrong"));
        let endpoint = endpoint.ok()?.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true);
        let endpoint = endpoint.http2_keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);
        Some(endpoint.http2_adaptive_window(true).connect_lazy())
    }
}
