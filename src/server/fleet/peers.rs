//! The way from a follower to its leader: one connection, for its clock, for how far the follower may tell durations, and for calls.
use super::clock::ReplicaClock;
use super::leading::Vouched;
use super::look::{Answer, look};
use super::looking::{LeaderLink, Looking};
use crate::causes::with_causes;
use crate::clock::Clock;
use crate::coordinator::store::etcd::{Fleet, Leader};
use crate::server::tls::TlsFiles;
use ring::hmac;
use std::fs;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
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

/// How this replica connects to others over TLS.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn peer_tls(peer_ca: Option<&PathBuf>, own: Option<&TlsFiles>) -> Result<ClientTlsConfig, String> {
    let read = |path: &Path| fs::read(path).map_err(|error| format!("read {}: {error}", path.display()));
    let tls = match peer_ca {
        Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    match own {
        Some(TlsFiles { cert, key, client_ca: Some(_) }) => {
            Ok(tls.identity(Identity::from_pem(read(cert)?, read(key)?)))
        }
        _ => Ok(tls),
    }
}

/// Knows the leader.
pub(crate) struct Peers {
    fleet: Arc<Fleet>,
    machine: Arc<dyn Clock>,
    clock: Arc<ReplicaClock>,
    key: hmac::Key,
    tls: ClientTlsConfig,
    link: watch::Sender<Option<Link>>,
}

impl Peers {
    /// `own`: the certificate of this server, which servers that ask clients for one are shown.
    ///
    /// # Errors
    /// A file is wrong.
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        machine: Arc<dyn Clock>,
        clock: Arc<ReplicaClock>,
        peer_ca: Option<&PathBuf>,
        own: Option<&TlsFiles>,
    ) -> Result<Self, String> {
        let tls = peer_tls(peer_ca, own)?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, fleet.peer_key());
        Ok(Peers { fleet, machine, clock, key, tls, link: watch::Sender::new(None) })
    }

    /// The connection to whoever leads.
    pub(crate) fn links(&self) -> watch::Receiver<Option<Link>> {
        self.link.subscribe()
    }

    /// Keeps a connection to whoever leads and asks it, for ever. `own`: where other replicas reach this one.
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
            if leader.changed().await.is_err() {
                // The sender lives as long as the fleet.
                pending().await
            }
        }
    }

    fn channel(&self, address: &str) -> Option<Channel> {
        let endpoint = match address.starts_with("https://") {
            true => {
                Endpoint::from_shared(address.to_owned()).and_then(|endpoint| endpoint.tls_config(self.tls.clone()))
            }
            false => Endpoint::from_shared(format!("http://{}", address.trim_start_matches("http://"))),
        };
        let endpoint = endpoint.inspect_err(|error| tracing::warn!(address, %error, "the leader's address is wrong"));
        let endpoint = endpoint.ok()?.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true);
        let endpoint = endpoint.http2_keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);
        Some(endpoint.http2_adaptive_window(true).connect_lazy())
    }
}
