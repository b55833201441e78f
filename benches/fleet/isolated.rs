//! A replica that can be cut off from etcd, from the other replicas and from clients, all at once.
use crate::etcd::Cluster;
use crate::process::Process;
use crate::result::Result;
use crate::settings::Settings;
use proxy::{Mode, Proxy};
use tokio::runtime::Runtime;

// The module can do more than is needed here.
#[allow(dead_code)]
#[path = "../../tests/fleet/proxy.rs"]
mod proxy;

pub(super) struct Isolated {
    /// The address for clients.
    pub(super) address: String,
    /// The proxies to each member of etcd, from the other replicas, and from clients.
    ways: Vec<Proxy>,
    /// Runs the proxies.
    _runtime: Runtime,
}

impl Isolated {
    /// Starts a connected replica of `cluster`.
    pub(super) fn start(cluster: &Cluster, settings: &Settings) -> Result<(Self, Process)> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let way = |targets| runtime.block_on(Proxy::start(targets));
        let mut ways: Vec<_> =
            cluster.urls().iter().map(|url| way(vec![url.trim_start_matches("http://").to_owned()])).collect();
        let urls: Vec<_> = ways.iter().map(|way| format!("http://{}", way.address)).collect();
        let (peers, clients) = (way(Vec::new()), way(Vec::new()));
        let process = cluster.replica_by(settings, &urls, Some(&peers.address))?;
        let address = clients.address.clone();
        for way in [peers, clients] {
            way.turn_to(vec![process.address.clone()]);
            ways.push(way);
        }
        Ok((Isolated { address, ways, _runtime: runtime }, process))
    }

    /// From now on, no data arrives.
    pub(super) fn cut(&self) {
        self.ways.iter().for_each(|way| way.set(Mode::Stalled));
    }
}
