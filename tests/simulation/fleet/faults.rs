//! The faults and their times: drawn from the seed.
use super::etcd::MEMBERS;
use super::net::Node;
use super::world::{REPLICAS, World};
use fastrand::Rng;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Draws faults until `end`, with `calm` between two of them on average.
pub(super) async fn storm(world: Arc<World>, mut random: Rng, calm: Duration, end: Instant) {
    let mut next = Instant::now() + calm;
    let mut back: Vec<(Instant, Back)> = Vec::new();
    while Instant::now() < end && !world.oracle.has_violation() {
        sleep(Duration::from_millis(50)).await;
        let now = Instant::now();
        let (over, left): (Vec<_>, Vec<_>) = back.into_iter().partition(|(at, _)| *at <= now);
        back = left;
        over.into_iter().for_each(|(_, what)| what.end(&world));
        if now >= next {
            next = now + calm.mul_f64(0.1 + 1.8 * random.f64());
            if let Some((lasts, what)) = draw(&world, &mut random, &back) {
                back.push((now + lasts, what));
            }
        }
    }
    back.into_iter().for_each(|(_, what)| what.end(&world));
    world.net.heal();
    world.cluster.heal();
    world.oracle.line("all is well from here on");
}

/// What to do at the end of a fault.
#[derive(PartialEq)]
enum Back {
    Start { replica: usize, boots: bool },
    Go(usize),
}

impl Back {
    fn end(self, world: &Arc<World>) {
        match self {
            Back::Start { replica, boots } => {
                world.oracle.line(format!("replica {replica} starts"));
                world.start(replica, boots);
            }
            Back::Go(replica) => {
                world.oracle.line(format!("replica {replica} goes on"));
                world.gate(replica).go();
            }
        }
    }

    fn is_of(&self, number: usize) -> bool {
        matches!(self, Back::Start { replica, .. } | Back::Go(replica) if *replica == number)
    }
}

fn lasts(random: &mut Rng) -> Duration {
    Duration::from_millis(match random.u8(..3) {
        0 => random.u64(20..900),
        1 => random.u64(900..4_000),
        _ => random.u64(4_000..12_000),
    })
}

fn draw(world: &Arc<World>, random: &mut Rng, back: &[(Instant, Back)]) -> Option<(Duration, Back)> {
    let fault = |what: &'static str, whose: String| {
        world.oracle.count(what);
        world.oracle.line(format!("{whose}: {what}"));
    };
    // Half of the faults hit the leader.
    let leader =
        world.replicas().iter().find(|replica| replica.leading.serving().is_some()).map(|leader| leader.number);
    let replica = leader.filter(|_| random.bool()).unwrap_or_else(|| random.usize(..REPLICAS));
    let (name, lasts) = (format!("replica {replica}"), lasts(random));
    let until = Instant::now() + lasts;
    let is_whole = !back.iter().any(|(_, back)| back.is_of(replica));
    let ways = |random: &mut Rng, one: Node, other: Node| {
        let both = [(one, other), (other, one)];
        match random.u8(..3) {
            0 => both.to_vec(),
            way => vec![both[usize::from(way - 1)]],
        }
    };
    match random.u8(..16) {
        0..3 if is_whole => {
            fault("kills of a replica", name);
            world.kill(replica);
            return Some((lasts, Back::Start { replica, boots: random.u8(..5) == 0 }));
        }
        3..6 if is_whole => {
            fault("stops of a replica", name);
            world.gate(replica).stop();
            return Some((lasts, Back::Go(replica)));
        }
        6 if is_whole => {
            fault("drains of a replica", name);
            world.replica(replica)?.drain();
        }
        7..9 => {
            fault("cuts between a replica and etcd", name);
            // One member, or all of them.
            let all = random.bool();
            let one = random.usize(..MEMBERS);
            let how = random.u8(..3);
            for member in (0..MEMBERS).filter(|member| all || *member == one) {
                let both = [(Node::Replica(replica), Node::Etcd(member)), (Node::Etcd(member), Node::Replica(replica))];
                let cut = if how == 0 { &both[..] } else { &both[usize::from(how - 1)..usize::from(how)] };
                cut.iter().for_each(|(from, to)| world.net.cut(*from, *to, until));
            }
        }
        9..11 => {
            fault("cuts between two replicas", name);
            let other = (replica + random.usize(1..REPLICAS)) % REPLICAS;
            for (from, to) in ways(random, Node::Replica(replica), Node::Replica(other)) {
                world.net.cut(from, to, until);
            }
        }
        11 => {
            fault("cuts between a client and a replica", name);
            for (from, to) in ways(random, Node::Client(random.clone().usize(..8)), Node::Replica(replica)) {
                world.net.cut(from, to, until);
            }
        }
        12 => {
            let member = random.usize(..MEMBERS);
            fault("members of etcd that stand still", format!("member {member}"));
            world.cluster.stall(member, until);
        }
        13 => {
            fault("times without a leader of etcd", "etcd".into());
            world.cluster.lose_leader(until.min(Instant::now() + Duration::from_secs(6)));
        }
        14 => {
            let member = random.usize(..MEMBERS);
            fault("broken watches", format!("member {member}"));
            world.cluster.break_watches(member);
            if random.bool() {
                fault("compactions", "etcd".into());
                world.cluster.forget();
            }
        }
        _ => {
            fault("wall clocks that are set", name);
            world.set_wall_clock(replica, random.i64(-100_000_000_000..100_000_000_000));
        }
    }
    None
}
