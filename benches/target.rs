//! The targets: our server in its variants, and the alternatives.
use crate::etcd::Cluster;
use crate::grpc::CERTIFIED_NAME;
use crate::link::Link;
use crate::measure;
use crate::process::{Process, free_addresses, serve_at};
use crate::result::Result;
use crate::settings::Settings;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A server that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// tonic with constant answers: no gRPC server that uses it can need less.
    Limit,
    /// The same, with watches of encoded frames.
    LimitRaw,
    /// `pausewatch serve --store memory`.
    Memory,
    /// `pausewatch serve` with its store on disk.
    Embedded,
    /// The same, with many threads on a stream.
    Shared,
    /// The same, with `Watch`.
    Changing,
    /// The same, with `Watch` and many threads on a stream.
    ChangingShared,
    /// Three replicas over one etcd; calls go to the leader.
    FleetOfOneEtcd,
    /// Three replicas over three etcd.
    FleetOfThreeEtcd,
    /// The build that `BEFORE` names, with its store on disk.
    Before,
    /// `Limit` with TLS.
    LimitTls,
    /// `Embedded` with TLS.
    EmbeddedTls,
    /// Redis that syncs each write, as our store does.
    Redis,
}

impl Target {
    pub(crate) const ALL: [Target; 13] = [
        Target::Limit,
        Target::LimitRaw,
        Target::Memory,
        Target::Embedded,
        Target::Shared,
        Target::Changing,
        Target::ChangingShared,
        Target::FleetOfOneEtcd,
        Target::FleetOfThreeEtcd,
        Target::Before,
        Target::LimitTls,
        Target::EmbeddedTls,
        Target::Redis,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Target::Limit => "limit",
            Target::LimitRaw => "limit-raw",
            Target::Memory => "memory",
            Target::Embedded => "embedded",
            Target::Shared => "embedded, shared streams",
            Target::Changing => "embedded, Watch",
            Target::ChangingShared => "embedded, Watch, shared streams",
            Target::FleetOfOneEtcd => "3 replicas, 1 etcd",
            Target::FleetOfThreeEtcd => "3 replicas, 3 etcd",
            Target::Before => "before",
            Target::LimitTls => "limit, TLS",
            Target::EmbeddedTls => "embedded, TLS",
            Target::Redis => "redis, fsync",
        }
    }

    /// Whether one watch may have many threads.
    pub(crate) fn shares_streams(self) -> bool {
        matches!(self, Target::Shared | Target::ChangingShared | Target::Redis)
    }

    /// Whether watches use `Watch` instead of `WatchPauseState`.
    fn watches_by_change(self) -> bool {
        matches!(self, Target::Changing | Target::ChangingShared)
    }

    /// Whether the counts in its answers are real.
    pub(crate) fn counts(self) -> bool {
        !matches!(self, Target::Limit | Target::LimitRaw | Target::LimitTls)
    }

    /// The `targets` that this machine has.
    pub(crate) fn present(settings: &Settings, targets: &[Target]) -> Vec<Target> {
        let is_present = |target: &&Target| match target {
            Target::Redis => has_redis(),
            Target::Before => settings.before.is_some(),
            _ => true,
        };
        Self::ALL.iter().filter(|target| targets.contains(target)).filter(is_present).copied().collect()
    }

    fn has_tls(self) -> bool {
        matches!(self, Target::LimitTls | Target::EmbeddedTls)
    }

    /// Starts a new server of this kind.
    pub(crate) fn start(self, settings: &Settings) -> Result<Server> {
        let data = settings.data_dir()?;
        let certificate = if self.has_tls() { Some(certificate(data.path())?) } else { None };
        let members = match self {
            Target::FleetOfOneEtcd => 1,
            Target::FleetOfThreeEtcd => 3,
            _ => {
                let address =
                    if self == Target::Redis { free_addresses(1)?[0] } else { (Ipv4Addr::LOCALHOST, 0).into() };
                let process = self.start_at(address, data.path(), settings)?;
                return Ok(Server { target: self, process, certificate, _fleet: None, data });
            }
        };
        let cluster = Cluster::start(settings, members)?;
        let mut replicas = cluster.replicas(settings, 3)?;
        let leader = replicas.remove(0);
        Ok(Server { target: self, process: leader, certificate, _fleet: Some((replicas, cluster)), data })
    }

    /// Starts a server at this address with the data in `data`.
    fn start_at(self, address: SocketAddr, data: &Path, settings: &Settings) -> Result<Process> {
        let (certificate, key) = (data.join(CERTIFICATE), data.join(KEY));
        match self {
            Target::FleetOfOneEtcd | Target::FleetOfThreeEtcd => Err("a fleet has more than one process".into()),
            Target::Limit | Target::LimitRaw | Target::LimitTls => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg(if self == Target::LimitRaw { "serve-limit-raw" } else { "serve-limit" });
                command.arg(address.to_string());
                if self.has_tls() {
                    command.args([certificate, key]);
                }
                Process::listening(command)
            }
            Target::Redis => {
                let mut command = Command::new("redis-server");
                command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--dir"]).arg(data);
                command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxclients", "30000"]);
                Process::connectable(command, address)
            }
            Target::Memory
            | Target::Embedded
            | Target::Shared
            | Target::Changing
            | Target::ChangingShared
            | Target::Before
            | Target::EmbeddedTls => {
                let before = settings.before.as_ref().filter(|_| self == Target::Before);
                let mut command = serve_at(before.unwrap_or(&settings.program), &address.to_string());
                match self {
                    Target::Memory => command.args(["--store", "memory"]),
                    _ => command.arg("--data-dir").arg(data.join("store")),
                };
                if self.has_tls() {
                    command.arg("--tls-cert").arg(certificate).arg("--tls-key").arg(key);
                }
                Process::listening(command)
            }
        }
    }
}

const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// Writes a certificate and its key, and returns the certificate.
fn certificate(directory: &Path) -> Result<String> {
    let certified = rcgen::generate_simple_self_signed([CERTIFIED_NAME.to_owned()])?;
    std::fs::write(directory.join(CERTIFICATE), certified.cert.pem())?;
    std::fs::write(directory.join(KEY), certified.signing_key.serialize_pem())?;
    Ok(certified.cert.pem())
}

fn has_redis() -> bool {
    Command::new("redis-server").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The number of clients that share one address.
const CLIENTS_OF_ADDRESS: usize = 1_000;

/// A running server, with its data.
pub(crate) struct Server {
    target: Target,
    process: Process,
    certificate: Option<String>,
    /// The other replicas, and their etcd.
    _fleet: Option<(Vec<Process>, Cluster)>,
    data: TempDir,
}

/// How clients connect to a server.
#[derive(Clone)]
pub(crate) struct Address {
    target: Target,
    address: String,
    certificate: Option<String>,
    /// The local address of the client, if it matters. Not used for Redis.
    client: Option<IpAddr>,
}

impl Address {
    /// The address for one client of many. Each thousand share an address of loopback, as those of one machine would:
    /// with 20,000 clients on one address, most of the time would be the kernel's search for a free port.
    pub(crate) fn of_client(self, number: usize) -> Self {
        let [.., machine] = (number / CLIENTS_OF_ADDRESS).to_be_bytes();
        Address { client: Some(Ipv4Addr::new(127, 1, machine, 1).into()), ..self }
    }

    pub(crate) async fn connect(&self) -> Result<Link> {
        match self.target {
            Target::Redis => Link::redis(&self.address).await,
            target => {
                let by_change = target.watches_by_change();
                Link::grpc(self.client, &self.address, by_change, self.certificate.as_deref()).await
            }
        }
    }
}

impl Server {
    /// Kills it as a crash would.
    pub(crate) fn crash(&mut self) {
        self.process.kill();
    }

    /// Starts it again on the same address and data, and waits until it listens.
    pub(crate) fn start_again(&mut self, settings: &Settings) -> Result<()> {
        let address = self.process.address.parse()?;
        self.process = self.target.start_at(address, self.data.path(), settings)?;
        Ok(())
    }

    /// Opens new connections.
    pub(crate) async fn connect(&self, connections: usize) -> Result<Vec<Link>> {
        let mut links = Vec::new();
        for _ in 0..connections {
            links.push(self.connecting().await?);
        }
        Ok(links)
    }

    /// Opens one more connection.
    pub(crate) fn connecting(&self) -> impl Future<Output = Result<Link>> + Send + use<> {
        let address = self.client_address();
        async move { address.connect().await }
    }

    /// How clients connect to it.
    pub(crate) fn client_address(&self) -> Address {
        let (address, certificate) = (self.process.address.clone(), self.certificate.clone());
        Address { target: self.target, address, certificate, client: None }
    }

    /// `HOST:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.process.address
    }

    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        measure::cpu_seconds(self.process.pid())
    }

    pub(crate) fn resident(&self) -> Result<f64> {
        measure::resident(self.process.pid())
    }
}

/// The note about a missing Redis.
pub(crate) fn note_missing_redis(targets: &[Target], table: &mut crate::table::Table) {
    if !targets.contains(&Target::Redis) {
        table.note("No redis-server in the PATH: not measured beside Redis.");
    }
}
