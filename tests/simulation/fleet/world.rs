//! One fleet: three replicas on three machines, three members of etcd, and the network between these and clients.
use super::etcd::Cluster;
use super::machine::{Gate, Machine, begin};
use super::net::{Net, Node};
use super::oracle::Oracle;
use super::replica::{self, Replica};
use fastrand::Rng;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub(super) const REPLICAS: usize = 3;
/// The maximum delay before a process that ended is restarted.
const STARTS_WITHIN: Duration = Duration::from_millis(500);

/// What is broken on purpose, to check that the oracle detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    Nothing,
    /// Transactions are applied whatever their comparison yields.
    Fence,
    /// Leaders do not ask etcd whether they still lead.
    Confirmation,
    /// Durations are shown up to now, whatever time the leader has confirmed.
    Horizon,
}

pub(super) struct World {
    pub(super) broken: Broken,
    pub(super) oracle: Oracle,
    pub(super) net: Arc<Net>,
    pub(super) cluster: Arc<Cluster>,
    start: Instant,
    places: Mutex<Vec<Place>>,
}

/// The machine on which a replica runs.
struct Place {
    random: Rng,
    boots: u64,
    machine: Arc<Machine>,
    wall: Arc<AtomicI64>,
    gate: Arc<Gate>,
    dead: Arc<AtomicBool>,
    /// Set when it has joined.
    replica: Option<Arc<Replica>>,
}

impl World {
    pub(super) fn new(random: &mut Rng, broken: Broken) -> Arc<Self> {
        let start = Instant::now();
        let oracle = Oracle::new(start);
        let net = Arc::new(Net::new(random.fork()));
        let cluster = Arc::new(Cluster::new(random.fork(), net.clone(), oracle.clone(), broken != Broken::Fence));
        let place = |number: usize| {
            let mut random = random.fork();
            let wall = Arc::new(AtomicI64::new(random.i64(-5_000_000_000..5_000_000_000)));
            let (boots, base, drift) = (1_000 * (number as u64 + 1), random.i64(0..1 << 50), random.i64(-50..=50));
            let machine = Arc::new(Machine::new(start, boots, base, drift, wall.clone()));
            oracle.machine(boots, machine.clone());
            let (gate, dead, replica) = Default::default();
            Place { random, boots, machine, wall, gate, dead, replica }
        };
        let places = Mutex::new((0..REPLICAS).map(place).collect());
        Arc::new(World { broken, oracle, net, cluster, start, places })
    }

    fn places(&self) -> std::sync::MutexGuard<'_, Vec<Place>> {
        self.places.lock().expect("no panic while locked")
    }

    /// Starts a process; `boots`: after its machine has booted.
    pub(super) fn start(self: &Arc<Self>, number: usize, boots: bool) {
        let mut places = self.places();
        let place = &mut places[number];
        if boots {
            place.boots += 1;
            let now = super::machine::nanos(Instant::now() - self.start);
            // The clock counts from the boot.
            let (base, drift) = (1_000_000_000 - now, place.random.i64(-50..=50));
            place.machine = Arc::new(Machine::new(self.start, place.boots, base, drift, place.wall.clone()));
            self.oracle.machine(place.boots, place.machine.clone());
        }
        (place.gate, place.dead, place.replica) = (Arc::default(), Arc::default(), None);
        let process = replica::run(self.clone(), number, place.machine.clone(), place.gate.clone(), place.dead.clone());
        begin(&place.gate, process);
    }

    pub(super) fn started(&self, replica: &Arc<Replica>) {
        self.places()[replica.number].replica = Some(replica.clone());
    }

    /// A process has ended by itself: it is restarted, unless it was killed meanwhile; then the end of that fault
    /// restarts it.
    pub(super) fn ended(self: &Arc<Self>, number: usize) {
        let gate = {
            let mut places = self.places();
            let place = &mut places[number];
            place.replica = None;
            // Stops all its tasks.
            place.gate.stop();
            place.gate.clone()
        };
        let world = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(STARTS_WITHIN).await;
            let is_down = {
                let place = &world.places()[number];
                place.dead.load(SeqCst) || !Arc::ptr_eq(&place.gate, &gate)
            };
            if !is_down {
                world.start(number, false);
            }
        });
    }

    pub(super) fn kill(&self, number: usize) {
        let mut places = self.places();
        let place = &mut places[number];
        place.gate.stop();
        place.dead.store(true, SeqCst);
        place.replica = None;
    }

    pub(super) fn gate(&self, number: usize) -> Arc<Gate> {
        self.places()[number].gate.clone()
    }

    pub(super) fn set_wall_clock(&self, number: usize, by: i64) {
        self.places()[number].wall.fetch_add(by, SeqCst);
    }

    pub(super) fn replica(&self, number: usize) -> Option<Arc<Replica>> {
        self.places()[number].replica.clone()
    }

    pub(super) fn replicas(&self) -> Vec<Arc<Replica>> {
        self.places().iter().filter_map(|place| place.replica.clone()).collect()
    }

    /// Runs `work` at the replica that is at this address when the request arrives, and returns the answer. `None`: no
    /// replica is there, or it has no answer.
    pub(super) async fn ask<T, F>(
        self: &Arc<Self>,
        from: Node,
        to: usize,
        work: impl FnOnce(Arc<Replica>) -> F + Send + 'static,
    ) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = Option<T>> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let world = self.clone();
        tokio::spawn(async move {
            world.net.carry(from, Node::Replica(to)).await;
            let done = match world.replica(to) {
                Some(replica) => begin(&replica.gate().clone(), work(replica)).await.ok().flatten(),
                None => None,
            };
            world.net.carry(Node::Replica(to), from).await;
            let _ = answer.send(done);
        });
        answered.await.ok().flatten()
    }
}
