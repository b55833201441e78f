//! The guarantees under faults: a whole system in one process, on simulated network and time, and an oracle that knows all.
//!
//! The real server (coordinator, embedded store on a disk in memory, service, hub, watch), exec servers (controller,
//! follower, stopwatches), holders and watchers are hosts of a turmoil simulation. A seed decides everything: who does
//! what when, how long messages take, which links are cut, who crashes and for how long, what the clocks do. The oracle
//! stands outside the network. It sees each commit, each answer, each fault and each stopwatch, keeps its own books of
//! who was paused when, and compares (`oracle/`).
//!
//! | file | is |
//! | --- | --- |
//! | `run` | one seed from its beginning to its end |
//! | `faults` | what goes wrong, and when |
//! | `server`, `exec`, `holder`, `watcher` | the hosts |
//! | `machine`, `disk`, `net` | clocks, disk and network of the hosts |
//! | `oracle` | the books, and the checks of G1 to G6 |
//! | `seeds` | many runs, on all cores |
//!
//! `cargo test --test simulation` runs 200 seeds, or as many as fit into 3 minutes. `PAUSEWATCH_SIM_SECONDS=3600` runs
//! for as long, from a random first seed; `PAUSEWATCH_SIM_SEED=7` runs seed 7 alone and prints what happened.
#[allow(dead_code, clippy::unwrap_used)] // The tests of the store use more of it.
#[path = "../it/support/disk.rs"]
mod disk;
mod exec;
mod faults;
mod fleet;
mod holder;
mod machine;
mod net;
mod oracle;
mod run;
mod seeds;
mod server;
mod watcher;

#[test]
fn guarantees_hold_under_faults() {
    seeds::run_all();
}

#[test]
fn the_same_seed_gives_the_same_course() {
    for seed in [1, 2, 3] {
        let course = || {
            let output = seeds::run_in_process(seed).stdout;
            let text = String::from_utf8(output).expect("lines of text");
            // These lines are the test runner's, with real time: at the end, and after a minute.
            text.lines().filter(|line| !line.starts_with("test ")).map(str::to_owned).collect::<Vec<_>>()
        };
        let (first, second) = (course(), course());
        let differing = first.iter().zip(&second).find(|(first, second)| first != second);
        assert!(first == second, "seed {seed}: {differing:?}");
        assert!(first.len() > 50, "seed {seed}: hardly anything happened: {first:#?}");
    }
}
