//! The network: every message has its own delay. Links are cut in one direction or both; a message over a link that is
//! cut is lost, or arrives late.
use fastrand::Rng;
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A sender or a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Node {
    Replica(usize),
    Etcd(usize),
    Client(usize),
}

pub(super) struct Net(Mutex<Links>);

struct Links {
    start: Instant,
    seed: u64,
    slowest: u64,
    /// The links that are cut, and until when.
    cut: BTreeMap<(Node, Node), Instant>,
    late: u64,
    lost: u64,
}

/// Random numbers of a link at this time. They do not depend on the order in which tasks are woken, which tokio draws
/// randomly.
pub(super) fn random_of(seed: u64, from: Node, to: Node, start: Instant) -> Rng {
    let number = |node| match node {
        Node::Replica(number) => 3 * number as u64,
        Node::Etcd(number) => 3 * number as u64 + 1,
        Node::Client(number) => 3 * number as u64 + 2,
    };
    let since = u64::try_from(start.elapsed().as_millis()).expect("a run is short");
    let mut random = Rng::with_seed(seed ^ (number(from) << 48) ^ (number(to) << 56) ^ since);
    // Similar seeds start with similar numbers.
    random.fork()
}

impl Net {
    pub(super) fn new(mut random: Rng) -> Self {
        let slowest = random.u64(2..15);
        let seed = random.u64(..);
        Net(Mutex::new(Links { start: Instant::now(), seed, slowest, cut: BTreeMap::new(), late: 0, lost: 0 }))
    }

    fn links(&self) -> std::sync::MutexGuard<'_, Links> {
        self.0.lock().expect("no panic while locked")
    }

    /// Cuts one direction of a link.
    pub(super) fn cut(&self, from: Node, to: Node, until: Instant) {
        let mut links = self.links();
        let known = links.cut.entry((from, to)).or_insert(until);
        *known = until.max(*known);
    }

    pub(super) fn heal(&self) {
        self.links().cut.clear();
    }

    /// The numbers of messages that arrived late, and that were lost.
    pub(super) fn figures(&self) -> (u64, u64) {
        let links = self.links();
        (links.late, links.lost)
    }

    /// Until when no message gets from one to the other.
    pub(super) fn cut_until(&self, from: Node, to: Node) -> Option<Instant> {
        self.links().cut.get(&(from, to)).copied().filter(|until| *until > Instant::now())
    }

    fn way(&self, from: Node, to: Node) -> Option<Duration> {
        let cut = self.cut_until(from, to);
        let mut links = self.links();
        let slowest = links.slowest;
        let mut random = random_of(links.seed, from, to, links.start);
        let latency = Duration::from_millis(random.u64(1..=slowest));
        let (goes_late, slow) = (random.bool(), (random.u8(..) == 0).then(|| random.u64(100..1_500)));
        match cut {
            // TCP retransmits, unless the connection is given up earlier.
            Some(until) if goes_late => {
                links.late += 1;
                Some(until - Instant::now() + latency)
            }
            Some(_) => {
                links.lost += 1;
                None
            }
            None => Some(latency + Duration::from_millis(slow.unwrap_or_default())),
        }
    }

    /// Waits for as long as a message takes; for ever if it is lost.
    pub(super) async fn carry(&self, from: Node, to: Node) {
        match self.way(from, to) {
            Some(time) => sleep(time).await,
            None => pending().await,
        }
    }
}
