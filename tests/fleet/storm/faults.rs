//! The faults: what each of them does, to which process, and how it ends.
use super::cluster::{Cluster, MEMBERS};
use crate::caller::health;
use crate::proxy::Mode;
use crate::site::Site;
use crate::takeovers::LEADER;
use fastrand::Rng;
use rustix::process::Signal;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    KillReplica,
    StopReplica,
    DrainReplica,
    /// The connection between a replica and one member of etcd, or all.
    EtcdWay,
    /// The connections from the other replicas to one.
    PeersWay,
    /// The connections from clients to a replica.
    ClientsWay,
    KillMember,
    StopMember,
    /// The connections from the other members of etcd to one.
    MembersWay,
}

const KINDS: [Kind; 9] = [
    Kind::KillReplica,
    Kind::StopReplica,
    Kind::DrainReplica,
    Kind::EtcdWay,
    Kind::PeersWay,
    Kind::ClientsWay,
    Kind::KillMember,
    Kind::StopMember,
    Kind::MembersWay,
];
/// This many faults contain each kind twice: once at the leader, once at another one.
pub(super) const DECK: usize = 2 * KINDS.len();

const PARTITIONS: [Mode; 4] = [Mode::Stalled, Mode::HoldsCalls, Mode::HoldsAnswers, Mode::Cut];

/// The kinds that are still to come, each with whether it hits the leader.
#[derive(Default)]
pub(super) struct Deck(Vec<(Kind, bool)>);

impl Deck {
    pub(super) fn draw(&mut self, random: &mut Rng) -> (Kind, bool) {
        if self.0.is_empty() {
            self.0.extend(KINDS.iter().flat_map(|kind| [(*kind, true), (*kind, false)]));
        }
        self.0.swap_remove(random.usize(..self.0.len()))
    }
}

/// A fault that has started.
pub(super) enum Fault {
    Kill(usize),
    Stop(usize),
    Drain(usize),
    Etcd(usize, Vec<usize>),
    Peers(usize),
    Clients(usize),
    KillMember(usize),
    StopMember(usize),
    Members(usize),
}

/// The duration of a fault.
pub(super) fn lasts(random: &mut Rng) -> Duration {
    let (from, to) = [(20, 900), (900, 2_500), (2_500, 4_500)][random.usize(..3)];
    Duration::from_millis((from + random.usize(..to - from)) as u64)
}

/// The replica that reports that it leads, without those in `but`.
async fn leading(sites: &[Site], but: &[usize]) -> Option<usize> {
    for (i, site) in sites.iter().enumerate().filter(|(i, _)| !but.contains(i)) {
        if health(&site.address, LEADER).await.as_deref() == Some("SERVING") {
            return Some(i);
        }
    }
    None
}

/// Chooses one of `count`: the leader, or another one.
fn choose(count: usize, leader: Option<usize>, at_leader: bool, random: &mut Rng) -> (usize, bool) {
    match leader {
        Some(leader) if at_leader => (leader, true),
        Some(leader) => ((leader + 1 + random.usize(..count - 1)) % count, false),
        None => (random.usize(..count), false),
    }
}

/// Starts a fault and records it. `None`: its target already has a fault.
pub(super) async fn begin(
    (kind, at_leader): (Kind, bool),
    sites: &mut [Site],
    cluster: &mut Cluster,
    under_way: &[&Fault],
    random: &mut Rng,
) -> Option<(Fault, String)> {
    let mode = PARTITIONS[random.usize(..4)];
    let (of_replica, of_member) = (|fault: &&Fault| fault.replica(), |fault: &&Fault| fault.member());
    let hit: Vec<_> = under_way.iter().filter_map(of_replica).collect();
    let hit_members: Vec<_> = under_way.iter().filter_map(of_member).collect();
    let at_member = matches!(kind, Kind::KillMember | Kind::StopMember | Kind::MembersWay);
    let (who, is_leader) = match at_member {
        true => choose(MEMBERS, cluster.leader().await, at_leader, random),
        false => choose(sites.len(), leading(sites, &hit).await, at_leader, random),
    };
    // Two faults may have the same target only if neither affects its process.
    let is_whole = match at_member {
        true => !hit_members.contains(&who) && cluster.members[who].is_running(),
        false => !hit.contains(&who) && sites[who].is_running().await,
    };
    if !is_whole {
        return None;
    }
    let whose = match (at_member, is_leader) {
        (true, true) => "etcd's leader",
        (true, false) => "another member of etcd",
        (false, true) => "the leader",
        (false, false) => "another replica",
    };
    let (fault, what) = match kind {
        Kind::KillReplica => {
            sites[who].kill();
            (Fault::Kill(who), "kill -9 of".to_owned())
        }
        Kind::StopReplica => {
            sites[who].process().signal(Signal::STOP);
            (Fault::Stop(who), "SIGSTOP of".to_owned())
        }
        Kind::DrainReplica => {
            sites[who].drain();
            (Fault::Drain(who), "SIGTERM of".to_owned())
        }
        Kind::EtcdWay => {
            let (one, all) = (random.usize(..MEMBERS), random.bool());
            let members: Vec<_> = (0..MEMBERS).filter(|member| all || *member == one).collect();
            members.iter().for_each(|member| sites[who].etcd[*member].set(mode));
            let what = if all { "all of etcd" } else { "a member of etcd" };
            (Fault::Etcd(who, members), format!("{what} cut off from"))
        }
        Kind::PeersWay => {
            sites[who].peers.set(mode);
            (Fault::Peers(who), "the other replicas cut off from".to_owned())
        }
        Kind::ClientsWay => {
            sites[who].clients.set(mode);
            (Fault::Clients(who), "clients cut off from".to_owned())
        }
        Kind::KillMember => {
            cluster.members[who].kill();
            (Fault::KillMember(who), "kill -9 of".to_owned())
        }
        Kind::StopMember => {
            cluster.members[who].signal(Signal::STOP);
            (Fault::StopMember(who), "SIGSTOP of".to_owned())
        }
        Kind::MembersWay => {
            cluster.members[who].peers.set(mode);
            (Fault::Members(who), "the other members cut off from".to_owned())
        }
    };
    Some((fault, format!("{what} {whose}")))
}

impl Fault {
    fn replica(&self) -> Option<usize> {
        match self {
            Fault::Kill(who) | Fault::Stop(who) | Fault::Drain(who) => Some(*who),
            Fault::Etcd(who, _) | Fault::Peers(who) | Fault::Clients(who) => Some(*who),
            Fault::KillMember(_) | Fault::StopMember(_) | Fault::Members(_) => None,
        }
    }

    fn member(&self) -> Option<usize> {
        match self {
            Fault::KillMember(who) | Fault::StopMember(who) | Fault::Members(who) => Some(*who),
            _ => None,
        }
    }

    /// Ends the fault.
    ///
    /// # Errors
    /// If a replica that was drained did not end successfully.
    pub(super) async fn end(self, sites: &mut [Site], cluster: &mut Cluster) -> Result<(), String> {
        match self {
            Fault::Kill(who) => sites[who].begin(),
            Fault::Stop(who) => sites[who].process().signal(Signal::CONT),
            Fault::Drain(who) => {
                let (status, said) = sites[who].drained().await;
                sites[who].begin();
                if !status.success() {
                    return Err(format!("a replica that was drained ended with {status}: {said}"));
                }
            }
            Fault::Etcd(who, members) => members.iter().for_each(|member| sites[who].etcd[*member].set(Mode::Whole)),
            Fault::Peers(who) => sites[who].peers.set(Mode::Whole),
            Fault::Clients(who) => sites[who].clients.set(Mode::Whole),
            Fault::KillMember(who) => cluster.members[who].begin(),
            Fault::StopMember(who) => cluster.members[who].signal(Signal::CONT),
            Fault::Members(who) => cluster.members[who].peers.set(Mode::Whole),
        }
        Ok(())
    }
}
