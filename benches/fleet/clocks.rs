//! The error that a takeover adds to paused times: the growth of a total from one leader to the next, compared with the
//! clock of the client that reads it.
//!
//! On one machine, a takeover is exact, because all replicas read the same clock. So these replicas run in this
//! process, each with clocks unrelated to those of the others, as on separate machines.
use crate::etcd::Cluster;
use crate::grpc;
use crate::measure::median;
use crate::result::Result;
use crate::settings::Settings;
use crate::table::Table;
use crate::threads;
use pausewatch::server::{Config, Server};
use pausewatch::test_support::clock::{Clock, System};
use pausewatch::test_support::core::Timestamp;
use pausewatch::test_support::etcd::ReplicaConfig;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const CASE: &str = "takeover by another machine";
const METRIC: &str = "largest error of a paused time, ms";
const TAKEOVERS: u64 = 10;
/// In this time, a follower compares its clock with the leader's often enough.
const HEARD: Duration = Duration::from_secs(3);
/// Reads before and after a takeover, so that the duration of a read cancels out.
const READS: usize = 51;

pub(super) fn measure(settings: &Settings, table: &mut Table, column: &str) -> Result<()> {
    let cluster = Cluster::start(settings, 3)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let errors = runtime.block_on(take_over(&cluster))?;
    let largest = errors.iter().fold(0.0, |largest: f64, error| largest.max(error.abs()));
    table.add((CASE, METRIC, column), largest * 1e3);
    Ok(())
}

pub(super) fn goals(table: &mut Table, column: &str) {
    table.goal_at_most("error of a paused time after a takeover", (CASE, METRIC, column), 2.0, "ms");
}

/// Returns the error of each takeover, in seconds.
async fn take_over(cluster: &Cluster) -> Result<Vec<f64>> {
    let mut leading = Replica::start(cluster, 1).await?;
    let mut link = leading.answers().await?;
    link.call(&threads::id(0), true).await?;
    let mut errors = Vec::new();
    for number in 2..2 + TAKEOVERS {
        let next = Replica::start(cluster, number).await?;
        sleep(HEARD).await;
        let before = ahead(&mut link).await?;
        leading.stop().await?;
        link = next.answers().await?;
        errors.push(ahead(&mut link).await? - before);
        leading = next;
    }
    leading.stop().await?;
    Ok(errors)
}

/// By how much the total of the paused thread is ahead of this process's clock, in seconds.
async fn ahead(link: &mut grpc::Link) -> Result<f64> {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let start = *START.get_or_init(Instant::now);
    let mut ahead = Vec::new();
    for _ in 0..READS {
        let before = start.elapsed();
        let total = link.paused_total(&threads::id(0)).await?;
        let middle = (before + start.elapsed()) / 2;
        ahead.push(total.as_secs_f64() - middle.as_secs_f64());
    }
    Ok(median(&ahead))
}

/// A replica in this process.
struct Replica {
    address: String,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Replica {
    async fn start(cluster: &Cluster, number: u64) -> Result<Self> {
        let replica = ReplicaConfig { fleet: cluster.config(), advertise: None, peer_ca: None };
        let config = Config { listen: vec!["127.0.0.1:0".parse()?], anonymous_ttl: None, ..Config::default() };
        let machine = Arc::new(Machine { system: System::new(), number });
        let server = Server::start_replica(replica, machine, config).await?;
        let (address, (stop, stopped)) = (server.addresses()[0].clone(), oneshot::channel());
        let served = tokio::spawn(server.run(async move { _ = stopped.await }));
        Ok(Replica { address, stop, served })
    }

    /// Waits until it answers, and connects to it.
    async fn answers(&self) -> Result<grpc::Link> {
        let mut link = grpc::Link::connect(&self.address, false, None).await?;
        let begin = Instant::now();
        loop {
            match link.get(&threads::id(0)).await {
                Ok(_) => return Ok(link),
                Err(error) if begin.elapsed() > Duration::from_secs(30) => return Err(error),
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
    }

    async fn stop(self) -> Result<()> {
        let _ = self.stop.send(());
        Ok(self.served.await?)
    }
}

/// A machine with a longer uptime than this one, and a wrong wall clock.
struct Machine {
    system: System,
    number: u64,
}

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        let (now, number) = (self.system.now(), i64::try_from(self.number).expect("small"));
        let (hour, second) = (3_600_000_000_000, 1_000_000_000);
        Timestamp { boot: now.boot + number * hour, wall: now.wall + 7 * number * second }
    }

    fn awake(&self) -> Duration {
        self.system.awake()
    }

    fn boot_id(&self) -> u64 {
        self.number
    }
}
