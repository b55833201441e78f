//! What is measured: our server in its forms, and what it is compared with.
use crate::etcd::Cluster;
use crate::link::Link;
use crate::measure;
use crate::process::{Process, free_port};
use crate::result::Result;
use crate::settings::Settings;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A server that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// tonic with constant answers: what no gRPC server on it can be below.
    Limit,
    /// The same, with watches of ready-framed bytes.
    LimitRaw,
    /// `pausewatch serve --store memory`.
    Memory,
    /// `pausewatch serve` with its store on disk.
    Embedded,
    /// The same, with many threads on a stream.
    Shared,
    /// The same, by `Watch`.
    Changing,
    /// The same, by `Watch` with many threads on a stream.
    ChangingShared,
    /// Three replicas over one etcd; calls go to the leader.
    FleetOfOneEtcd,
    /// Three replicas over three.
    FleetOfThreeEtcd,
    /// The build that `BEFORE` names, with its store on disk.
    Before,
    /// Redis that syncs each write, as we do.
    Redis,
}

impl Target {
    pub(crate) const ALL: [Target; 11] = [
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
            Target::Redis => "redis, fsync",
        }
    }

    /// Whether one watch may have many threads.
    pub(crate) fn shares_streams(self) -> bool {
        matches!(self, Target::Shared | Target::ChangingShared | Target::Redis)
    }

    /// Whether watches are made by `Watch` instead of `WatchPauseState`.
    fn watches_by_change(self) -> bool {
        matches!(self, Target::Changing | Target::ChangingShared)
    }

    /// Whether the counts that it answers mean anything.
    pub(crate) fn counts(self) -> bool {
        !matches!(self, Target::Limit | Target::LimitRaw)
    }

    /// Those of `targets` that this machine has.
    pub(crate) fn present(settings: &Settings, targets: &[Target]) -> Vec<Target> {
        let is_present = |target: &&Target| match target {
            Target::Redis => has_redis(),
            Target::Before => settings.before.is_some(),
            _ => true,
        };
        Self::ALL.iter().filter(|target| targets.contains(target)).filter(is_present).copied().collect()
    }

    /// Starts a new server of this kind.
    pub(crate) fn start(self, settings: &Settings) -> Result<Server> {
        let data = settings.data_dir()?;
        let mut fleet = None;
        let process = match self {
            Target::Limit | Target::LimitRaw => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg(if self == Target::Limit { "serve-limit" } else { "serve-limit-raw" });
                Process::listening(command)?
            }
            Target::Redis => {
                let address = free_port()?;
                let mut command = Command::new("redis-server");
                command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--dir"]).arg(data.path());
                command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxclients", "15000"]);
                Process::connectable(command, address)?
            }
            Target::FleetOfOneEtcd | Target::FleetOfThreeEtcd => {
                let cluster = Cluster::start(settings, if self == Target::FleetOfOneEtcd { 1 } else { 3 })?;
                let mut replicas = cluster.replicas(settings, 3)?;
                let leader = replicas.remove(0);
                fleet = Some((replicas, cluster));
                leader
            }
            Target::Memory => Process::listening(serve(&settings.program, &["--store", "memory"]))?,
            Target::Embedded | Target::Shared | Target::Changing | Target::ChangingShared | Target::Before => {
                let before = settings.before.as_ref().filter(|_| self == Target::Before);
                let mut command = serve(before.unwrap_or(&settings.program), &["--data-dir"]);
                command.arg(data.path());
                Process::listening(command)?
            }
        };
        Ok(Server { target: self, process, _fleet: fleet, _data: data })
    }
}

/// `pausewatch serve` on a free port of loopback.
pub(crate) fn serve(program: &PathBuf, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    // Logged as by default, and not to this terminal.
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(args).stderr(std::process::Stdio::null());
    command
}

fn has_redis() -> bool {
    Command::new("redis-server").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// A running server, and its data for as long as it runs.
pub(crate) struct Server {
    target: Target,
    process: Process,
    /// The other replicas, and their etcd.
    _fleet: Option<(Vec<Process>, Cluster)>,
    _data: TempDir,
}

impl Server {
    /// Connections of their own.
    pub(crate) async fn connect(&self, connections: usize) -> Result<Vec<Link>> {
        let mut links = Vec::new();
        for _ in 0..connections {
            links.push(self.connecting().await?);
        }
        Ok(links)
    }

    /// One more.
    pub(crate) fn connecting(&self) -> impl Future<Output = Result<Link>> + Send + use<> {
        let (target, address) = (self.target, self.process.address.clone());
        async move {
            match target {
                Target::Redis => Link::redis(&address).await,
                target => Link::grpc(&address, target.watches_by_change()).await,
            }
        }
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

/// What is said where Redis is missing.
pub(crate) fn note_missing_redis(targets: &[Target], table: &mut crate::table::Table) {
    if !targets.contains(&Target::Redis) {
        table.note("No redis-server in the PATH: not measured beside Redis.");
    }
}
