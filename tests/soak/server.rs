//! The server as a process, and its faults.
use crate::world::World;
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// Nothing that the server does takes this long.
const PATIENCE: Duration = Duration::from_secs(30);
/// A drain takes at most 5 s, and then the store is closed: one or two fsyncs on a busy disk.
const DRAIN: Duration = Duration::from_secs(10);
/// There are only a few thousand threads, so more memory than this means a leak.
const MOST_MEMORY: u64 = 256 << 20;

pub(crate) struct Server {
    data: PathBuf,
    address: String,
    child: Child,
    kills: u32,
    drains: u32,
    stops: u32,
    slowest_start: Duration,
    most_memory: u64,
    largest_store: u64,
}

impl Server {
    pub(crate) async fn start(data: PathBuf) -> Self {
        let (child, address, slowest_start) = spawn(&data, "127.0.0.1:0").await;
        Server { data, address, child, kills: 0, drains: 0, stops: 0, slowest_start, most_memory: 0, largest_store: 0 }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// One fault, and the end of it.
    pub(crate) async fn fault(&mut self, world: &World, random: &mut Rng) {
        match random.usize(..10) {
            0..6 => {
                self.kills += 1;
                self.child.kill().await.expect("the server runs");
                // Sometimes for longer than clients wait.
                sleep(Duration::from_millis(if random.usize(..20) == 0 { 7_000 } else { random.u64(..500) })).await;
                self.again(world).await;
            }
            6..8 => {
                self.drains += 1;
                self.drain(world).await;
                self.again(world).await;
            }
            _ => {
                self.stops += 1;
                self.signal(Signal::STOP);
                sleep(Duration::from_millis(random.u64(..2_000))).await;
                self.signal(Signal::CONT);
                world.is_up();
            }
        }
    }

    async fn again(&mut self, world: &World) {
        let (child, _, took) = spawn(&self.data, &self.address).await;
        self.child = child;
        self.slowest_start = self.slowest_start.max(took);
        world.is_up();
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.id().expect("the server runs") as i32;
        kill_process(Pid::from_raw(id).expect("a process id"), signal).expect("the server runs");
    }

    async fn drain(&mut self, world: &World) {
        let asked = Instant::now();
        self.signal(Signal::TERM);
        match timeout(PATIENCE, self.child.wait()).await {
            Ok(Ok(status)) if status.success() && asked.elapsed() < DRAIN => {}
            ended => world.fail(format!("SIGTERM: {ended:?} after {:?}", asked.elapsed())),
        }
    }

    /// Checks memory and disk.
    pub(crate) fn measure(&mut self, world: &World) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id().expect("the server runs")));
        let resident = status.unwrap_or_default().lines().find_map(|line| {
            let kilobytes = line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?;
            Some(kilobytes.parse::<u64>().ok()? << 10)
        });
        self.most_memory = self.most_memory.max(resident.unwrap_or_default());
        if self.most_memory > MOST_MEMORY {
            world.fail(format!("the server takes {} MiB of memory", self.most_memory >> 20));
        }
        self.largest_store = self.largest_store.max(size(&self.data));
    }

    pub(crate) async fn stop(&mut self, world: &World) {
        self.drain(world).await;
    }

    pub(crate) fn summary(&self) -> String {
        format!(
            "server       {} x kill -9, {} x SIGTERM, {} x SIGSTOP; started within {} ms; {} MiB of memory, {} MiB of disk at most",
            self.kills,
            self.drains,
            self.stops,
            self.slowest_start.as_millis(),
            self.most_memory >> 20,
            self.largest_store >> 20
        )
    }
}

/// Starts a server and waits until it listens; returns its address, and how long that took.
async fn spawn(data: &Path, listen: &str) -> (Child, String, Duration) {
    let asked = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", listen, "--data-dir"]).arg(data);
    // Its messages are part of the output of the soak test.
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let line = timeout(PATIENCE, lines.next_line()).await.expect("the server listens in time");
    let line = line.expect("its output can be read").expect("the server says where it listens");
    let address = line.strip_prefix("listening ").expect("it says where it listens").to_owned();
    (child, address, asked.elapsed())
}

fn size(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}
