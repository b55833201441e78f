//! The role and the freshness of each replica of a fleet, for `health --fleet` and `list`.
use super::{duration, failure, table};
use crate::client::{self, Address, Config, Error};
use crate::escape::escaped;
use serde::Serialize;
use std::time::Duration;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

const SERVICE: &str = "pausewatch.v1.ElicitationService";
/// The metadata of health answers (`docs/fleet.md`).
const FLEET: &str = "pausewatch-fleet";
const ROLE: &str = "pausewatch-role";
const TERM: &str = "pausewatch-term";
const STATE_AGE: &str = "pausewatch-state-age-ms";
const LAG: &str = "pausewatch-lag-entries";

/// A replica, as it answered or did not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Replica {
    /// The address at which the replica was asked.
    pub(crate) address: String,
    /// The fleet of the replica: the `store_epoch` of its states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fleet: Option<String>,
    /// `leader` or `follower`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) term: Option<u64>,
    /// The time since the replica was last sure that it had the latest state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state_age_ms: Option<u64>,
    /// The number of changes that the replica knows of and does not show yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lag_entries: Option<u64>,
    pub(crate) serving: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// What happened to the request.
    #[serde(skip)]
    pub(crate) reached: Reached,
}

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// There is no connection, or it broke.
    Nobody,
    /// Nothing came back in time.
    Silence,
    /// It was answered.
    Server,
}

/// Asks every replica of `config` at the same time.
pub(crate) async fn ask(config: &Config, within: Duration) -> Vec<Replica> {
    let asked = config.address.each().iter().map(|address| {
        let (address, config) = (address.clone(), config.clone());
        tokio::spawn(async move { ask_one(&address, &config, within).await })
    });
    let mut replicas = Vec::new();
    for answer in asked.collect::<Vec<_>>() {
        replicas.extend(answer.await);
    }
    replicas
}

async fn ask_one(address: &Address, config: &Config, within: Duration) -> Replica {
    let unknown = |problem: String, reached| Replica {
        reached,
        address: address.to_string(),
        fleet: None,
        role: None,
        term: None,
        state_age_ms: None,
        lag_entries: None,
        serving: false,
        problem: Some(problem),
    };
    let mut health = match client::channel(address, config) {
        Ok(channel) => HealthClient::new(channel),
        Err(error) => return unknown(error.to_string(), Reached::Nobody),
    };
    let question = Request::new(HealthCheckRequest { service: SERVICE.to_owned() });
    let answer = match tokio::time::timeout(within, health.check(question)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(status)) if std::error::Error::source(&status).is_some() => {
            return unknown(explained(status), Reached::Nobody);
        }
        Ok(Err(status)) => return unknown(explained(status), Reached::Server),
        Err(_) => return unknown(format!("no answer within {}", duration::show(within)), Reached::Silence),
    };
    let text = |name| answer.metadata().get(name).and_then(|value| value.to_str().ok()).map(escaped);
    let number = |name| number(answer.metadata(), name);
    let Some(role) = text(ROLE) else {
        return unknown(
            "not a replica of a fleet, or one of an earlier version: `serve --store etcd` starts one".into(),
            Reached::Server,
        );
    };
    let serving = answer.get_ref().status() == ServingStatus::Serving;
    let problem =
        (!serving).then(|| "does not serve: it does not reach etcd or the leader, or it is stopping".to_owned());
    Replica {
        fleet: text(FLEET),
        role: Some(role),
        term: number(TERM),
        state_age_ms: number(STATE_AGE),
        lag_entries: number(LAG),
        serving,
        problem,
        ..unknown(String::new(), Reached::Server)
    }
}

fn number(metadata: &MetadataMap, name: &str) -> Option<u64> {
    metadata.get(name)?.to_str().ok()?.parse().ok()
}

fn explained(status: Status) -> String {
    escaped(&failure::cause(&Error::from(status)))
}

impl Replica {
    pub(crate) fn leads(&self) -> bool {
        self.role.as_deref() == Some("leader")
    }

    /// Its role, and how old its state is or what is wrong.
    fn cells(&self) -> [String; 4] {
        let role = match self.role.as_deref() {
            Some("leader") => "leads".to_owned(),
            Some("follower") => "follows".to_owned(),
            other => other.unwrap_or("-").to_owned(),
        };
        let term = self.term.map_or("-".to_owned(), |term| term.to_string());
        let age = self.state_age_ms.map(|age| format!("{:.1}s old", Duration::from_millis(age).as_secs_f64()));
        let state = match &self.problem {
            Some(problem) => problem.clone(),
            None => age.unwrap_or_default(),
        };
        [escaped(&self.address), role, term, state]
    }
}

/// A table of all.
pub(crate) fn text(replicas: &[Replica], width: Option<usize>) -> String {
    let rows: Vec<_> = replicas.iter().map(Replica::cells).collect();
    table::render(["REPLICA", "ROLE", "TERM", "STATE"], &rows, width)
}

/// All in one line.
pub(crate) fn line(replicas: &[Replica]) -> String {
    let each = replicas.iter().map(|replica| {
        let [address, role, _, state] = replica.cells();
        match replica.problem {
            Some(_) => format!("{address}: {state}"),
            None => format!("{address} {role} ({state})"),
        }
    });
    format!("Replicas: {}.\n", each.collect::<Vec<_>>().join("; "))
}

/// The problem of the fleet as a whole.
pub(crate) fn problem(replicas: &[Replica]) -> Option<String> {
    let latest = replicas.iter().filter(|replica| replica.leads()).map(|replica| replica.term).max();
    let leaders = replicas.iter().filter(|replica| replica.leads() && Some(replica.term) == latest).count();
    let failing = replicas.iter().filter(|replica| replica.problem.is_some()).count();
    let mut fleets = replicas.iter().filter_map(|replica| replica.fleet.as_ref());
    let first = fleets.next();
    if fleets.any(|other| Some(other) != first) {
        return Some(
            "these are replicas of different fleets: give all the same --etcd-endpoints and --etcd-prefix".into(),
        );
    }
    match (failing, leaders) {
        (0, 1) => None,
        (0, 0) => {
            Some("no replica leads: a new leader is there within about 1.5 s, or the leader is not among these".into())
        }
        (0, _) => Some("more than one replica says that it leads: are they replicas of one fleet?".into()),
        (failing, leaders) => {
            let leading = if leaders == 0 { ", and none of the others leads" } else { "" };
            Some(format!("{failing} of {} replicas cannot be used{leading}", replicas.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(address: &str, role: &str, term: u64) -> Replica {
        Replica {
            address: address.into(),
            fleet: Some("7".into()),
            role: Some(role.into()),
            term: Some(term),
            state_age_ms: Some(120),
            lag_entries: Some(0),
            serving: true,
            problem: None,
            reached: Reached::Server,
        }
    }

    fn lost(address: &str) -> Replica {
        let problem = Some("Connection refused".to_owned());
        let none = Replica {
            fleet: None,
            role: None,
            term: None,
            state_age_ms: None,
            lag_entries: None,
            ..replica(address, "", 0)
        };
        Replica { serving: false, problem, reached: Reached::Nobody, ..none }
    }

    #[test]
    fn the_table_and_the_line_say_who_leads_and_how_old_each_state_is() {
        let replicas = [replica("a:1", "leader", 3), replica("b:1", "follower", 3), lost("c:1")];
        assert_eq!(
            text(&replicas, None),
            "\
REPLICA  ROLE     TERM  STATE
a:1      leads    3     0.1s old
b:1      follows  3     0.1s old
c:1      -        -     Connection refused
"
        );
        assert_eq!(
            line(&replicas),
            "Replicas: a:1 leads (0.1s old); b:1 follows (0.1s old); c:1: Connection refused.\n"
        );
    }

    #[test]
    fn a_fleet_is_sound_if_all_serve_and_one_leads() {
        let follower = || replica("b:1", "follower", 3);
        assert_eq!(problem(&[replica("a:1", "leader", 3), follower()]), None);
        // The one of term 2 has not noticed yet that it was replaced.
        assert_eq!(problem(&[replica("a:1", "leader", 2), replica("c:1", "leader", 3)]), None);
        let other = |role, term| Replica { fleet: Some("8".into()), ..replica("c:1", role, term) };
        for (replicas, expected) in [
            (vec![follower(), follower()], "no replica leads"),
            (vec![replica("a:1", "leader", 3), replica("b:1", "leader", 3)], "more than one"),
            (vec![replica("a:1", "leader", 3), lost("b:1")], "1 of 2 replicas cannot be used"),
            (vec![follower(), lost("b:1")], "none of the others leads"),
            (vec![replica("a:1", "leader", 2), other("leader", 3)], "different fleets"),
            (vec![replica("a:1", "leader", 2), lost("b:1"), other("follower", 3)], "different fleets"),
        ] {
            let said = problem(&replicas).expect("it is not sound");
            assert!(said.contains(expected), "{said}");
        }
    }
}
