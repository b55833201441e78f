//! `fleet`: three replicas over etcd, compared with the embedded store in the same run; the cost of a fault, the error
//! that a takeover adds to paused times, a cold start, and many streams.
mod clocks;
mod cold_start;
mod faults;
mod isolated;
mod streams;

use crate::result::Result;
use crate::settings::Settings;
use crate::table::Table;
use crate::target::Target;
use crate::{calls, etcd};

const ONE: &str = "3 replicas, 1 etcd";
const THREE: &str = "3 replicas, 3 etcd";

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let targets = [Target::Embedded, Target::FleetOfOneEtcd, Target::FleetOfThreeEtcd];
    let mut table = Table::new("fleet: replicas over etcd, all on this machine", targets.map(Target::label));
    if !etcd::is_installed() {
        return Err("the program etcd is not installed (Debian: etcd-server)".into());
    }
    for run in 1..=settings.runs {
        for callers in [1, 256] {
            eprintln!("fleet: calls, run {run} of {}, {callers} callers", settings.runs);
            for target in targets {
                let _ = calls::measure(target, callers, settings, &mut table)?;
            }
        }
        eprintln!("fleet: faults, run {run} of {}", settings.runs);
        faults::measure(settings, &mut table, THREE)?;
        eprintln!("fleet: clocks, run {run} of {}", settings.runs);
        clocks::measure(settings, &mut table, THREE)?;
    }
    cold_start::measure(settings, &mut table, THREE)?;
    streams::measure(settings, &mut table, THREE)?;
    table.goal_at_least_times("calls/s, 256 callers, three etcd", ("256 callers", "calls/s", THREE), 0.55, "embedded");
    table.goal_at_least_times("calls/s, 256 callers, one etcd", ("256 callers", "calls/s", ONE), 0.75, "embedded");
    table.goal_at_most_times("p50, 1 caller, three etcd", ("1 caller", "p50, us", THREE), 3.5, "embedded");
    faults::goals(&mut table, THREE);
    clocks::goals(&mut table, THREE);
    cold_start::goals(&mut table, THREE);
    streams::goals(&mut table, THREE, settings.streams);
    table.note(
        "The callers of the first rows are at the leader, whose CPU is counted. On one machine, three replicas and three members of etcd \
         share its processors and its disk with the callers.",
    );
    Ok(table)
}
