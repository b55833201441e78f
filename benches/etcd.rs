//! A cluster of etcd on loopback, and replicas over it.
use crate::process::{Process, free_addresses, serve};
use crate::result::Result;
use crate::settings::Settings;
use crate::{grpc, threads};
use pausewatch::test_support::etcd::{Endpoints, FleetConfig};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PREFIX: &str = "/bench/";
/// The maximum time until a replica answers.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running cluster. Its data is on the same disk as the other stores, and is removed when this is dropped.
pub(crate) struct Cluster {
    _members: Vec<Process>,
    _data: TempDir,
    urls: Vec<String>,
}

impl Cluster {
    pub(crate) fn start(settings: &Settings, count: usize) -> Result<Self> {
        let data = settings.data_dir()?;
        let free = free_addresses(2 * count)?;
        let addresses: Vec<_> = free.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        let named = addresses.iter().enumerate().map(|(i, (_, peer))| format!("m{i}=http://{peer}"));
        let cluster = named.collect::<Vec<_>>().join(",");
        // All at once, because each waits for the others.
        let spawned = addresses.iter().enumerate().map(|(i, (client, peer))| {
            let (client_url, peer_url) = (format!("http://{client}"), format!("http://{peer}"));
            let mut command = Command::new("etcd");
            command.args(["--name", &format!("m{i}"), "--log-level", "error", "--data-dir"]);
            command.arg(data.path().join(format!("m{i}")));
            command.args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url]);
            command.args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url]);
            command.args(["--initial-cluster", &cluster]).stderr(Stdio::null());
            (command, *client)
        });
        let members = Process::connectable_all(spawned.collect())?;
        let urls = addresses.iter().map(|(client, _)| format!("http://{client}")).collect();
        Ok(Cluster { _members: members, _data: data, urls })
    }

    pub(crate) fn config(&self) -> FleetConfig {
        let endpoints = Endpoints { urls: self.urls.clone(), ..Endpoints::default() };
        FleetConfig { endpoints, prefix: PREFIX.to_owned(), compact: true }
    }

    /// The URLs of its members.
    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    /// A replica that listens; it may not know a leader yet.
    pub(crate) fn replica(&self, settings: &Settings) -> Result<Process> {
        self.replica_by(settings, &self.urls, None)
    }

    /// A replica that reaches etcd at `urls`, and that others reach at `advertise`.
    pub(crate) fn replica_by(&self, settings: &Settings, urls: &[String], advertise: Option<&str>) -> Result<Process> {
        let mut command = serve(&settings.program, &["--store", "etcd", "--etcd-prefix", PREFIX, "--etcd-endpoints"]);
        command.arg(urls.join(","));
        advertise.into_iter().for_each(|address| _ = command.args(["--advertise", address]));
        Process::listening(command)
    }

    /// Starts `count` replicas; the leader is the first one.
    pub(crate) fn replicas(&self, settings: &Settings, count: usize) -> Result<Vec<Process>> {
        self.led_by(self.replica(settings)?, settings, count)
    }

    /// Starts further replicas, up to `count`. The first one, which was just started, leads.
    pub(crate) fn led_by(&self, first: Process, settings: &Settings, count: usize) -> Result<Vec<Process>> {
        let mut replicas = vec![first];
        // When it answers, it leads.
        answers(&replicas[0])?;
        for _ in 1..count {
            replicas.push(self.replica(settings)?);
        }
        replicas.iter().try_for_each(answers)?;
        Ok(replicas)
    }
}

/// Waits until a replica answers: it leads, or it knows the leader.
pub(crate) fn answers(replica: &Process) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut link = grpc::Link::connect(&replica.address, false, None).await?;
        let begin = Instant::now();
        loop {
            // A replica that is loading a lot refuses a call after 10 s.
            match link.get(&threads::id(0)).await {
                Err(error) if begin.elapsed() > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                Ok(_) => return Ok(()),
            }
        }
    })
}

pub(crate) fn is_installed() -> bool {
    Command::new("etcd").arg("--version").output().is_ok_and(|output| output.status.success())
}
