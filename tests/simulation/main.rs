//! The guarantees under faults: a whole system in one process, with simulated network and time, and an oracle that
//! knows everything.
//!
//! The real server (coordinator, embedded store on a disk in memory, service, hub, watch), exec servers (controller,
//! follower, stopwatches), holders and watchers are hosts of a turmoil simulation. A seed determines everything: what
//! each host does and when, how long messages take, which links are cut, which hosts crash and for how long, and what
//! the clocks do. The oracle is outside the network. It sees each commit, answer, fault and stopwatch, keeps its own
//! record of which thread was paused when, and compares (`oracle/`).
//!
//! | file | content |
//! | --- | --- |
//! | `run` | one seed from its beginning to its end |
//! | `faults` | the faults and their times |
//! | `server`, `exec`, `holder`, `watcher` | the hosts |
//! | `machine`, `disk`, `net` | clocks, disk and network of the hosts |
//! | `oracle` | the books, and the checks of G1 to G6 |
//! | `seeds` | many runs, on all cores |
//!
//! `cargo test --test simulation` runs 200 seeds, or as many as fit into 3 minutes. `PAUSEWATCH_SIM_SECONDS=3600` runs
//! for that long, from a random first seed; `PAUSEWATCH_SIM_SEED=7` runs only seed 7 and prints what happened.
#[allow(dead_code, clippy::unwrap_used)] // Other tests use the rest of it.
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
            // The test runner prints these lines, with real time: at the end, and after a minute.
            text.lines().filter(|line| !line.starts_with("test ")).map(str::to_owned).collect::<Vec<_>>()
        };
        let (first, second) = (course(), course());
        let differing = first.iter().zip(&second).find(|(first, second)| first != second);
        assert!(first == second, "seed {seed}: {differing:?}");
        assert!(first.len() > 50, "seed {seed}: too little happened: {first:#?}");
    }
}
