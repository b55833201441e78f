//! The reports of a fleet's health: `health --fleet`, and the messages of commands that get no answer.
use crate::caller::{Caller, health};
use crate::etcd::Etcd;
use crate::followers::fleet;
use crate::program::{Ended, Process as Started, ended, program};
use crate::start::fill;
use crate::support::{PATIENCE, Process, detail};
use crate::takeovers::{LEADER, leader};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

fn addresses(replicas: &[Process]) -> String {
    replicas.iter().map(|replica| replica.address.as_str()).collect::<Vec<_>>().join(",")
}

/// Runs a command with these replicas to its end.
async fn run(arguments: &[&str], addresses: &str) -> Ended {
    let mut command = program();
    command.args(arguments).env("PAUSEWATCH_ADDRESS", addresses);
    tokio::task::spawn_blocking(move || ended(&mut command)).await.expect("no panic")
}

/// Repeats `health --fleet` until it reports that this many replicas are healthy and one leads, or fails with
/// `problem`.
async fn says(addresses: &str, problem: Option<&str>) -> Ended {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let said = run(&["health", "--fleet", "--timeout", "1s"], addresses).await;
        let is_it = match problem {
            None => said.code == Some(0) && said.err.is_empty(),
            Some(problem) => said.code == Some(1) && said.err.contains(problem),
        };
        if is_it {
            return said;
        }
        assert!(Instant::now() < give_up, "{said:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// The row of a replica.
fn row<'a>(said: &'a Ended, address: &str) -> &'a str {
    let row = said.out.lines().find(|line| line.starts_with(address));
    row.unwrap_or_else(|| panic!("{address}: {said:?}"))
}

/// Three healthy replicas in the first term of their fleet, with both reports of their health. On a very busy machine,
/// the leader may be silent for so long that another one takes over, which is another case: `None`.
async fn first_term(etcd: &Etcd, prefix: &str) -> Option<(Vec<Process>, Ended, Vec<Value>)> {
    let replicas = fleet(etcd, prefix, 3).await;
    let all = addresses(&replicas);
    let give_up = Instant::now() + PATIENCE;
    loop {
        let said = says(&all, None).await;
        let json = run(&["health", "--fleet", "--output", "json"], &all).await;
        let told: Vec<Value> = serde_json::from_str(&json.out).expect("it is JSON");
        if told.iter().any(|replica| replica["term"].as_u64() > Some(1)) {
            return None;
        }
        let is_fresh = |replica: &Value| replica["state_age_ms"].as_u64().is_some_and(|age| age < 3_000);
        if json.code == Some(0) && told.iter().all(is_fresh) {
            return Some((replicas, said, told));
        }
        assert!(Instant::now() < give_up, "{json:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_health_of_a_fleet_names_its_leader_and_what_is_lost() {
    let Some(etcd) = Etcd::shared() else { return };
    let mut made = None;
    for attempt in 0..5 {
        made = first_term(etcd, &format!("health {attempt}")).await;
        if made.is_some() {
            break;
        }
    }
    let (mut replicas, said, told) = made.expect("the first leader leads for some seconds once in five times");
    let all = addresses(&replicas);
    assert_eq!(
        said.out.lines().next().map(|line| line.split_whitespace().collect()),
        Some(vec!["REPLICA", "ROLE", "TERM", "STATE"])
    );
    for (number, replica) in replicas.iter().enumerate() {
        let row: Vec<_> = row(&said, &replica.address).split_whitespace().collect();
        assert_eq!(row[1..3], [if number == 0 { "leads" } else { "follows" }, "1"], "{said:?}");
        assert!(row[3].ends_with('s') && row[4] == "old", "{said:?}");
    }
    let roles: Vec<_> = told.iter().map(|replica| replica["role"].as_str()).collect();
    assert_eq!(roles, [Some("leader"), Some("follower"), Some("follower")]);
    for (replica, told) in replicas.iter().zip(&told) {
        assert_eq!(
            (told["address"].as_str(), &told["term"], &told["serving"]),
            (Some(&*replica.address), &1.into(), &true.into())
        );
        assert!(told["fleet"].as_str().is_some_and(|fleet| fleet.parse::<u64>().is_ok()), "{told}");
        assert!(told["lag_entries"].is_u64() && told.get("problem").is_none(), "{told}");
    }

    // A replica that hangs, and then continues.
    replicas[2].signal(Signal::STOP);
    let said = says(&all, Some("1 of 3 replicas cannot be used")).await;
    assert!(row(&said, &replicas[2].address).contains("no answer within 1"), "{said:?}");
    replicas[2].signal(Signal::CONT);
    says(&all, None).await;
    // The leader is killed, and another one leads.
    let lost = replicas.remove(0);
    let address = lost.address.clone();
    lost.kill();
    leader(&replicas).await;
    let said = says(&all, Some("1 of 3 replicas cannot be used")).await;
    assert!(row(&said, &address).contains("Connection refused"), "{said:?}");
    let leading = replicas.iter().filter(|replica| row(&said, &replica.address).contains("leads")).count();
    assert!(leading == 1 || said.err.contains("none of the others leads"), "{said:?}");
    // Only some replicas are named: these may be followers.
    let follower = 1 - leader(&replicas).await;
    says(&replicas[follower].address, Some("no replica leads")).await;
    says(&addresses(&replicas), None).await;
}

/// Each of them serves and leads, so the problem shows only when both are named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_of_two_fleets_are_no_fleet() {
    let Some(etcd) = Etcd::shared() else { return };
    let (one, other) = (fleet(etcd, "one of two", 1).await, fleet(etcd, "another of two", 1).await);
    says(&addresses(&one), None).await;
    says(&addresses(&other), None).await;
    says(&format!("{},{}", addresses(&one), addresses(&other)), Some("replicas of different fleets")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_server_is_no_fleet() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let said = run(&["health", "--fleet"], &server.address).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(row(&said, &server.address).contains("not a replica of a fleet"), "{said:?}");
}

/// The replicas run, but no call is answered: the message must not suggest to start another server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_of_etcd_a_command_says_that_the_fleet_has_no_leader() {
    let Some(etcd) = Etcd::own(&[]) else { return };
    let replicas = fleet(&etcd, "no quorum", 2).await;
    let all = addresses(&replicas);
    Caller::new(&[replicas[0].address.clone()]).increment("t", "1").await;
    drop(etcd);
    let give_up = Instant::now() + PATIENCE;
    for replica in &replicas {
        for service in [LEADER, "pausewatch.v1.ElicitationService"] {
            while health(&replica.address, service).await.as_deref() != Some("NOT_SERVING") {
                assert!(Instant::now() < give_up, "{} still serves", replica.address);
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
    let said = says(&all, Some("2 of 2 replicas cannot be used, and none of the others leads")).await;
    assert!(row(&said, &replicas[0].address).contains("it does not reach etcd or the leader"), "{said:?}");
    for addresses in [&all, &replicas[1].address] {
        let said = run(&["get", "--thread-id", "t"], addresses).await;
        assert_eq!(said.code, Some(1), "{said:?}");
        for part in
            ["no response from a coordinator at ", "its fleet has no leader", "no quorum", "pausewatch health --fleet"]
        {
            assert!(said.err.contains(part), "{:?} does not say {part:?}", said.err);
        }
        assert!(!said.err.contains("pausewatch serve"), "{:?}", said.err);
    }
}

/// A leader, a follower, and an etcd that is full. On a very busy machine, etcd may be too slow for the leader while it
/// is being filled, and then no replica leads, which is another case: `None`.
async fn full() -> Option<(Etcd, Process, Started, Status)> {
    let etcd = Etcd::own(&["--quota-backend-bytes", "300000"])?;
    let leader = fleet(&etcd, "full", 1).await.remove(0);
    let mut command = program();
    command.args(["serve", "--store", "etcd", "--etcd-endpoints", &etcd.url, "--etcd-prefix", "full"]);
    command.args(["--listen", "127.0.0.1:0"]);
    let follower = Started::start(command);
    assert!(follower.line().starts_with("listening "), "the follower must have joined");
    let mut api = leader.api().await;
    api.increment("t", None).await;
    let etcd = tokio::task::spawn_blocking(move || {
        fill(&etcd);
        etcd
    });
    let etcd = etcd.await.expect("no panic");
    let refused = api.try_increment("t", "", None).await.expect_err("there is no space");
    let leads = health(&leader.address, LEADER).await.as_deref() == Some("SERVING");
    leads.then_some((etcd, leader, follower, refused))
}

/// A full etcd: callers get its quota in the message, and a replica that cannot take over reports it once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_is_named_to_callers_and_logged_once() {
    if !crate::etcd::is_installed() {
        return crate::etcd::report(false);
    }
    let mut made = None;
    for _ in 0..5 {
        made = full().await;
        if made.is_some() {
            break;
        }
    }
    let (_etcd, leader, follower, refused) = made.expect("etcd is fast enough for its leader once in five times");
    let mut api = leader.api().await;
    let (reason, metadata) = detail(&refused);
    assert_eq!((refused.code(), reason.as_str()), (Code::Unavailable, "STORE_UNAVAILABLE"));
    assert!(metadata["why"].contains("etcd") && metadata["why"].contains("quota"), "{metadata:?}");
    assert_eq!(api.get("t").await.count, 1, "reads must still be served");
    leader.kill();
    let is_attempt = |line: &str| line.contains("take over the leadership");
    let first = tokio::task::spawn_blocking(move || {
        let first = std::iter::repeat_with(|| follower.error_line()).find(|line| is_attempt(line));
        (first, follower)
    });
    let (first, follower) = first.await.expect("no panic");
    assert!(first.as_ref().is_some_and(|line| line.contains("space exceeded")), "{first:?}");
    // It tries ten times a second.
    sleep(Duration::from_secs(2)).await;
    follower.signal(Signal::TERM);
    let ended = tokio::task::spawn_blocking(|| follower.end()).await.expect("no panic");
    assert!(!ended.err.lines().any(is_attempt), "{}", ended.err);
}
