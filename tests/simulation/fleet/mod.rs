//! A fleet of replicas, over a model of etcd and of the network, in simulated time, checked by an oracle.
//!
//! Three replicas run the real code: joining, following, challenging, the chain of a leader, checkpoints, the standby,
//! the cluster clock, freshness, confirmations and the engine. Their etcd (`etcd`), the network (`net`) and the
//! machines (`machine`) are models; gRPC is left out, and forwarding and streams are simplified (`replica`, `clients`).
//! A seed determines everything.
//!
//! Runs are measured in thread-hours: the number of threads multiplied by the simulated time for which they were
//! watched and paused. `cargo test --test simulation fleet` simulates 100,000 of them.
//! `PAUSEWATCH_SIM_THREAD_HOURS=1000000` simulates more, from a random first seed; `PAUSEWATCH_FLEET_SEED=7` runs only
//! seed 7 and prints what happened.
mod clients;
mod etcd;
#[path = "../../../src/coordinator/store/etcd/fake_history.rs"]
mod fake_history;
mod faults;
mod machine;
mod many;
mod net;
mod oracle;
mod replica;
mod run;
mod world;

use pausewatch::test_support::etcd::wire;
use run::{LONG_EVERY, run};
use std::iter;
use world::Broken;

/// The default number of thread-hours: two minutes on one core.
const THREAD_HOURS: u64 = 100_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

#[test]
fn the_invariants_of_a_fleet_hold_under_faults() {
    if let Some(seed) = number("PAUSEWATCH_FLEET_SEED") {
        let course = run(seed, Broken::Nothing);
        course.lines.iter().for_each(|line| println!("{line}"));
        course.counts.iter().for_each(|(what, count)| println!("{count:>9} {what}"));
        assert!(course.violation.is_none(), "{}", many::failure(seed, &course.violation.unwrap_or_default()));
        return;
    }
    let wanted = number("PAUSEWATCH_SIM_THREAD_HOURS");
    // A longer test starts from a random seed each time.
    let first = wanted.map_or(1, |_| fastrand::u64(..1 << 40));
    many::run_many(first, wanted.unwrap_or(THREAD_HOURS));
}

#[test]
fn the_same_seed_gives_the_same_fleet() {
    for seed in 1..4 {
        let (first, second) = (run(seed, Broken::Nothing), run(seed, Broken::Nothing));
        let differing = first.lines.iter().zip(&second.lines).find(|(first, second)| first != second);
        assert!(first.lines == second.lines, "seed {seed}: {differing:?}");
        assert_eq!(first.counts, second.counts, "seed {seed}");
        assert!(first.lines.len() > 20, "seed {seed}: too little happened");
    }
}

/// Shows that the test can fail.
#[test]
fn the_oracle_notices_what_is_broken() {
    // Starts with the seed that detected it last time: a search from the first seed takes minutes.
    for (broken, likely, invariants) in [
        (Broken::Fence, 1, &["I1", "I2", "I3", "I5", "I7", "I10"][..]),
        (Broken::Confirmation, 79, &["I2", "I4", "I6"][..]),
        (Broken::Horizon, 1, &["I6"][..]),
    ] {
        let seeds = iter::once(likely).chain((1_u64..1_000).filter(|seed| !seed.is_multiple_of(LONG_EVERY)));
        let found = seeds.filter_map(|seed| Some((seed, run(seed, broken).violation?))).next();
        let (seed, violation) = found.unwrap_or_else(|| panic!("{broken:?} is not detected"));
        println!("{broken:?}: seed {seed}: {violation}");
        assert!(invariants.iter().any(|invariant| violation.starts_with(invariant)), "{broken:?}: {violation}");
    }
}
