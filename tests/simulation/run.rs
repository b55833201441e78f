//! One run: a seed, from its beginning to its end.
use crate::faults::Faults;
use crate::machine::Machine;
use crate::net::SERVER;
use crate::oracle::{Course, Oracle};
use crate::server::Server;
use crate::{exec, holder, watcher};
use fastrand::Rng;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The resolution of simulated time: what G3 allows, minus the shortest delay of a message.
pub(crate) const TICK: Duration = Duration::from_millis(2);
/// The time in which faults happen.
const STORM: Duration = Duration::from_secs(60);
/// The time without faults until everything must be idle: a dead connection is detected (15 s) and reopened (6 s), a
/// lease ends (6 s), a command expires (8 s).
const REST: Duration = Duration::from_secs(38);
/// How many steps lie between two checks of the oracle for missing events.
const LOOK_EVERY: u32 = 25;

pub(crate) const HOLDERS: [&str; 2] = ["holder-1", "holder-2"];
pub(crate) const EXECS: [&str; 2] = ["exec-1", "exec-2"];
pub(crate) const WATCHER: &str = "watcher";

/// The host on which a process runs, and the number of its start.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) threads: Arc<[String]>,
    seed: u64,
    life: u64,
}

impl Place {
    /// The random numbers of one task of the process.
    pub(crate) fn random(&self, task: u64) -> Rng {
        let host = self.host.bytes().fold(self.seed, |hash, byte| hash.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte));
        Rng::with_seed(host ^ (self.life << 32) ^ (task << 48))
    }

    pub(crate) fn any_thread(&self, random: &mut Rng) -> String {
        self.threads[random.usize(..self.threads.len())].clone()
    }
}

/// Runs `seed`, entirely on this thread.
pub(crate) fn run(seed: u64) -> Course {
    // The client library uses this generator for the delays between its retries.
    fastrand::seed(seed);
    let mut random = Rng::with_seed(seed);
    let machine = Machine::new();
    let latency = Duration::from_millis(random.u64(3..20));
    let grace = Duration::from_secs(random.u64(2..12));
    let threads: Arc<[String]> = (1..=random.u8(2..5)).map(|number| format!("thread-{number}")).collect();
    // Some maximums are shorter than the questions, some are longer.
    let max_pause = (random.u8(..3) > 0).then(|| Duration::from_millis(random.u64(1_500..12_000)));
    let oracle = Oracle::new(machine.clone(), grace, latency, max_pause, threads.to_vec());
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .tick_duration(TICK)
        .min_message_latency(TICK)
        .max_message_latency(latency)
        .simulation_duration(Duration::from_secs(86_400))
        .tcp_capacity(1_024)
        .build();

    let server = Server::new(machine.clone(), oracle.clone(), max_pause);
    let process = server.clone();
    sim.host(SERVER, move || process.clone().run());
    let place = |host: &str| {
        let (life, host, threads) = (Rc::new(Cell::new(0)), host.to_owned(), threads.clone());
        move || {
            life.set(life.get() + 1);
            Place { host: host.clone(), threads: threads.clone(), seed, life: life.get() }
        }
    };
    for host in HOLDERS {
        let (place, oracle) = (place(host), oracle.clone());
        sim.host(host, move || holder::run(place(), oracle.clone()));
    }
    for host in EXECS {
        let (place, oracle) = (place(host), oracle.clone());
        sim.host(host, move || exec::run(place(), oracle.clone(), grace));
    }
    let (place, told) = (place(WATCHER), oracle.clone());
    sim.host(WATCHER, move || watcher::run(place(), told.clone()));

    let mut faults = Faults::new(random, server, oracle.clone());
    let mut step = 0_u32;
    let mut over = false;
    while sim.elapsed() < STORM + REST && !oracle.has_violations() {
        if sim.elapsed() < STORM {
            faults.step(&mut sim);
        } else if !std::mem::replace(&mut over, true) {
            faults.heal(&mut sim);
            oracle.storm_is_over();
        }
        if let Err(error) = sim.step() {
            oracle.violation("harness", format!("a host ended: {error}"));
        }
        machine.stepped(sim.elapsed());
        step += 1;
        if step.is_multiple_of(LOOK_EVERY) {
            oracle.look();
        }
    }
    if !oracle.has_violations() {
        oracle.end();
    }
    drop(sim);
    oracle.course()
}
