//! Many commands at once: exact limits, no orphans, little memory.
use super::client::{Client, exec_server, process_with, until_there};
use serde_json::json;
use std::time::Duration;

const COMMANDS: u64 = 200;
/// The idle share of a machine that has nothing else to do than this test is higher, in percent.
const BUSY: u64 = 50;

fn resident(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1_024
}

/// Measures which share of the machine's time was idle since it was created, in percent.
struct Idle {
    idle: u64,
    all: u64,
}

impl Idle {
    fn so_far() -> Self {
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        let ticks = stat.lines().next().unwrap().split_whitespace().skip(1);
        // Without the last two columns, which the first two include (proc_stat(5)).
        let ticks: Vec<u64> = ticks.take(8).map(|ticks| ticks.parse().unwrap()).collect();
        Self { idle: ticks[3], all: ticks.iter().sum() }
    }

    fn percent(&self) -> u64 {
        let now = Self::so_far();
        now.idle.saturating_sub(self.idle) * 100 / (now.all - self.all).max(1)
    }
}

/// Limits are never early, and late by at most 20 ms in the median if the machine has idle time. On a busy machine this
/// would measure its load.
#[test]
fn two_hundred_limits_at_once_are_exact_and_leave_no_orphans() {
    let mark = format!("4{:08}.5", fastrand::u32(..100_000_000));
    let mut client = Client::start(exec_server([]));
    let limit = 6_000;
    let line = format!("sleep {mark} & sleep {mark}");
    let arguments = json!({"command": line, "workdir": "/", "timeout_ms": limit});
    let idle = Idle::so_far();
    let ids: Vec<_> = (0..COMMANDS).map(|_| client.begin("shell", "t", arguments.clone())).collect();
    let mut late: Vec<u64> = Vec::new();
    for id in ids {
        let answer = client.answer(id);
        assert_eq!(answer["timed_out"], true);
        late.push(answer["active_ms"].as_u64().unwrap().checked_sub(limit).expect("not early"));
    }
    assert_eq!(process_with(&mark), None);
    late.sort_unstable();
    let at = |part: usize| late[late.len() * part / 100];
    let idle = idle.percent();
    println!(
        "{COMMANDS} limits: late by {} ms in the median, {} ms at 90%, {} ms at most; the machine was idle for {idle}%",
        at(50),
        at(90),
        at(99)
    );
    if idle < BUSY {
        println!("how late they are is not judged: idle for less than {BUSY}%, the machine is busy with others");
    } else {
        assert!(at(50) <= 20, "{late:?}");
    }

    for _ in 0..COMMANDS {
        client.begin("exec_command", "t", json!({"command": line, "yield_time_ms": 60_000}));
    }
    until_there(&mark);
    assert!(client.hang_up().success());
    assert_eq!(process_with(&mark), None);
}

#[test]
fn an_idle_session_takes_little_memory() {
    let mark = format!("3{:08}.5", fastrand::u32(..100_000_000));
    let mut client = Client::start(exec_server([]));
    let mut hang = |count: u64| {
        for _ in 0..count {
            client.call("exec_command", json!({"command": format!("exec sleep {mark}"), "yield_time_ms": 0}));
        }
        std::thread::sleep(Duration::from_millis(500));
        resident(client.pid())
    };
    // The first ones include the server's own fixed cost.
    let before = hang(50);
    let each = hang(200).saturating_sub(before) / 200;
    println!("an idle session: {each} bytes");
    assert!(each <= 64 * 1_024, "{each}");
}
