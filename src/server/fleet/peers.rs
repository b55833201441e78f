//! The way from a follower to its leader: one connection, for its clock, for how far the follower may tell durations, and for calls.
use super::clock::ReplicaClock;
use super::look::look;
use crate::clock::Clock;
use crate::coordinator::store::etcd::Fleet;
use crate::server::tls::TlsFiles;
use ring::hmac;
use std::fs;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// How often the leader's clock is compared.
const COMPARE_EVERY: Duration = Duration::from_millis(200);
/// An answer that takes longer says too little of the clock.
const COMPARE_WITHIN: Duration = Duration::from_millis(200);
/// How often the leader is asked how far it vouches, at least.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A leader may have to wait for etcd. Three tries fit into the time in which a follower is fresh.
const LOOK_WITHIN: Duration = Duration::from_millis(900);
const AGAIN_AFTER: Duration = Duration::from_millis(50);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(700);
const PING_INTERVAL: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// A leader that is another replica, and the connection to it.
#[derive(Clone)]
pub(crate) struct Link {
    pub(super) replica: u64,
    pub(super) term: u64,
    pub(super) channel: Channel,
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
        let read = |path: &Path| fs::read(path).map_err(|error| format!("read {}: {error}", path.display()));
        let mut tls = match peer_ca {
            Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some(TlsFiles { cert, key, client_ca: Some(_) }) = own {
            tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, fleet.peer_key());
        Ok(Peers { fleet, machine, clock, key, tls, link: watch::Sender::new(None) })
    }

    /// The connection to whoever leads.
    pub(crate) fn links(&self) -> watch::Receiver<Option<Link>> {
        self.link.subscribe()
    }

    /// Keeps a connection to whoever leads and asks it, for ever.
    pub(super) async fn follow_leader(&self) {
        tokio::join!(self.connect(), self.compare_clocks(), self.look());
    }

    async fn connect(&self) {
        let mut leader = self.fleet.leader();
        loop {
            let known = leader.borrow_and_update().clone().filter(|leader| leader.replica != self.fleet.replica());
            let link = known.and_then(|leader| {
                let channel = self.channel(&leader.address)?;
                Some(Link { replica: leader.replica, term: leader.term, channel })
            });
            self.link.send_replace(link);
            if leader.changed().await.is_err() {
                // The sender lives as long as the fleet.
                pending().await
            }
        }
    }

    /// The leader that is known, as soon as one is.
    async fn linked(links: &mut watch::Receiver<Option<Link>>) -> Link {
        match links.wait_for(Option::is_some).await.ok().and_then(|link| link.clone()) {
            Some(link) => link,
            None => pending().await,
        }
    }

    async fn compare_clocks(&self) {
        let mut links = self.links();
        loop {
            let link = Self::linked(&mut links).await;
            let asked = self.machine.boot();
            let looked = timeout(COMPARE_WITHIN, look(link.channel, &self.key, link.replica, false)).await;
            let answered = self.machine.boot();
            match looked {
                Ok(Ok(answer)) if answer.term == link.term => {
                    let known = self.fleet.leader_clock();
                    known.sample(link.term, asked, answer.clock, answered);
                    let offset = known.offset(link.term).filter(|_| self.fleet.progress().follows());
                    offset.into_iter().for_each(|offset| self.clock.set(offset));
                    self.fleet.progress().holds(answer.seq, answer.horizon);
                }
                Ok(Ok(_)) => {}
                Ok(Err(status)) => tracing::debug!(%status, "compare the leader's clock"),
                Err(_) => tracing::debug!("the leader's clock does not answer"),
            }
            sleep(COMPARE_EVERY).await;
        }
    }

    async fn look(&self) {
        let (mut links, progress) = (self.links(), self.fleet.progress());
        loop {
            let link = Self::linked(&mut links).await;
            progress.looks.begin(LOOK_EVERY, || self.machine.boot()).await;
            let looked = timeout(LOOK_WITHIN, look(link.channel, &self.key, link.replica, true));
            let looked = tokio::select! {
                looked = looked => looked,
                // Whatever this one says is of no use.
                _ = links.changed() => {
                    progress.looks.want();
                    continue;
                }
            };
            match looked {
                Ok(Ok(answer)) if answer.term == link.term => {
                    progress.holds(answer.seq, answer.horizon);
                    progress.looks.succeed(answer.seq);
                    continue;
                }
                Ok(Ok(_)) => {}
                Ok(Err(status)) => tracing::debug!(%status, "look at the leader"),
                Err(_) => tracing::debug!("the leader does not answer"),
            }
            progress.looks.want();
            sleep(AGAIN_AFTER).await;
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
