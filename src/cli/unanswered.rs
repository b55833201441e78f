//! Finds out why a coordinator did not answer a call, for the message of the failure.
use super::failure::{Failure, START_ONE};
use super::replicas::{self, Reached, Replica};
use crate::client::error::hint;
use crate::client::{Address, Error, Settings};
use std::error::Error as _;
use std::time::Duration;

/// The timeout of the health check, and of a connection.
const WITHIN: Duration = Duration::from_secs(1);

/// The failure of a call. If it was not answered, the health service and a connection are tried to find the reason.
pub(super) async fn look_into(error: Error, settings: &Settings) -> Failure {
    let Ok(config) = settings.config() else { return error.into() };
    let is_unanswered = matches!(error, Error::Unavailable(_) | Error::DeadlineExceeded(_));
    // A connection to the only address that is refused or breaks says enough.
    let says_why = error.status().source().is_some() || hint(error.status().message()).is_some();
    let is_known = config.address.each().len() == 1 && says_why;
    if !is_unanswered || is_known {
        return error.into();
    }
    let asked = replicas::ask(&config, WITHIN).await;
    let mut silent = Vec::new();
    for (replica, address) in asked.iter().zip(config.address.each()) {
        if replica.reached == Reached::Silence {
            silent.push((replica.address.clone(), connects(address).await));
        }
    }
    let known = known(&asked, &silent, hint(error.status().message()).is_some());
    Failure::Unanswered(error, known)
}

/// Whether a connection can be opened.
async fn connects(address: &Address) -> bool {
    use tokio::net::{TcpStream, UnixStream};
    let connected = async {
        match address {
            Address::Tcp(authority) | Address::Tls(authority) => TcpStream::connect(authority.as_str()).await.is_ok(),
            Address::Unix(path) => UnixStream::connect(path).await.is_ok(),
            Address::Replicas(_) => false,
        }
    };
    tokio::time::timeout(WITHIN, connected).await.unwrap_or(false)
}

/// The findings as text. `silent`: the addresses that have not answered the health check either, and whether connections
/// to them can be opened. `is_explained`: the failure says what to do.
fn known(asked: &[Replica], silent: &[(String, bool)], is_explained: bool) -> String {
    if let Some(leader) = asked.iter().find(|replica| replica.leads() && replica.serving) {
        return format!("but the replica at {} leads its fleet and serves: call again", leader.address);
    }
    if asked.iter().any(|replica| replica.serving && replica.role.is_some()) {
        return "replicas answer, and no leader is among those that do; `pausewatch health --fleet` shows each".into();
    }
    if asked.iter().any(|replica| replica.role.is_some()) {
        return "its fleet has no leader: the replicas that answer do not reach each other, or etcd, or etcd has no quorum (most of its \
                members are down) or no space; `pausewatch health --fleet` shows each replica, and `etcdctl endpoint status` etcd"
            .into();
    }
    let mut others = asked.iter().filter(|replica| replica.reached == Reached::Server);
    if let Some(Replica { address, problem: Some(problem), .. }) =
        others.clone().find(|replica| replica.problem.is_some())
    {
        return format!(
            "what answers at {address} fails the health check too ({problem}): a proxy whose coordinator is down, or no coordinator"
        );
    }
    if others.next().is_some() {
        return "the server answers health checks, but did not answer this call: it may be overloaded, or its disk slow; see its log"
            .into();
    }
    if silent.iter().any(|(_, connects)| *connects) {
        let hanging: Vec<_> =
            silent.iter().filter(|(_, connects)| *connects).map(|(address, _)| address.as_str()).collect();
        return format!(
            "{} accepts connections, but does not answer: it hangs, or is no coordinator. See its log, or correct --address or \
             PAUSEWATCH_ADDRESS",
            hanging.join(" and ")
        );
    }
    if is_explained {
        return String::new();
    }
    let explained = asked.iter().find_map(|replica| {
        let problem = replica.problem.as_ref().filter(|problem| hint(problem).is_some())?;
        Some(format!("{}: {problem}", replica.address))
    });
    explained.unwrap_or_else(|| START_ONE.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(role: Option<&str>, serving: bool, reached: Reached) -> Replica {
        Replica {
            address: "a:1".into(),
            fleet: None,
            role: role.map(str::to_owned),
            term: None,
            state_age_ms: None,
            lag_entries: None,
            serving,
            problem: None,
            reached,
        }
    }

    #[test]
    fn the_message_says_what_was_found() {
        use Reached::{Nobody, Server, Silence};
        let follower = |serving| replica(Some("follower"), serving, Server);
        let lost = || replica(None, false, Nobody);
        let hanging = || replica(None, false, Silence);
        let silent = |connects| vec![("a:1".to_owned(), connects)];
        for (asked, silent, expected) in [
            (vec![lost()], vec![], "start one with `pausewatch serve`"),
            (vec![lost(), hanging()], silent(false), "start one with `pausewatch serve`"),
            (vec![lost(), hanging()], silent(true), "a:1 accepts connections, but does not answer"),
            (vec![replica(None, false, Server)], vec![], "the server answers health checks"),
            (
                vec![Replica { problem: Some("HTTP 503".into()), ..replica(None, false, Server) }],
                vec![],
                "what answers at a:1 fails the health check too (HTTP 503)",
            ),
            (vec![follower(false), lost()], vec![], "its fleet has no leader"),
            (vec![follower(false), hanging()], silent(true), "its fleet has no leader"),
            (vec![follower(true), lost()], vec![], "no leader is among those that do"),
            (vec![replica(Some("leader"), true, Server), lost()], vec![], "a:1 leads its fleet and serves"),
            (vec![replica(Some("leader"), false, Server)], vec![], "its fleet has no leader"),
        ] {
            let said = known(&asked, &silent, false);
            assert!(said.contains(expected), "{said:?} does not say {expected:?}");
        }
    }

    #[test]
    fn who_is_refused_by_one_of_several_is_not_told_to_start_one() {
        let refused =
            || Replica { problem: Some("Connection refused".into()), ..replica(None, false, Reached::Nobody) };
        let wants_certificate = Replica {
            problem: Some("received fatal alert: CertificateRequired; name a client certificate".into()),
            address: "b:2".into(),
            ..replica(None, false, Reached::Nobody)
        };
        let asked = [refused(), wants_certificate];
        assert!(known(&asked, &[], false).starts_with("b:2: received fatal alert: CertificateRequired"));
        assert_eq!(known(&asked, &[], true), "", "it is said already");
        assert!(known(&asked[..1], &[], false).starts_with("start one"));
    }
}
