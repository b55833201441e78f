//! Many commands at once: exact limits, no orphans, little memory.
use super::client::{Client, exec_server, process_with, until_there};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

const COMMANDS: u64 = 200;

fn resident(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1_024
}

/// How late sleeps of 10 ms are on this machine while something else goes on: the worst of ten.
struct Probe(Arc<AtomicBool>, JoinHandle<Vec<Duration>>);

impl Probe {
    fn start() -> Self {
        let over = Arc::<AtomicBool>::default();
        let stop = over.clone();
        Self(
            over,
            std::thread::spawn(move || {
                let mut late = Vec::new();
                while !stop.load(Relaxed) {
                    let (started, nap) = (Instant::now(), Duration::from_millis(10));
                    std::thread::sleep(nap);
                    late.push(started.elapsed() - nap);
                }
                late
            }),
        )
    }

    fn late(self) -> Duration {
        self.0.store(true, Relaxed);
        let mut late = self.1.join().unwrap();
        late.sort_unstable();
        late[late.len() * 9 / 10]
    }
}

/// Late by 20 ms in the median at most, on a machine that is not too busy with others to wake anybody in time.
#[test]
fn two_hundred_limits_at_once_are_exact_and_leave_no_orphans() {
    let mark = format!("4{:08}.5", fastrand::u32(..100_000_000));
    let mut client = Client::start(exec_server([]));
    let limit = 6_000;
    let line = format!("sleep {mark} & sleep {mark}");
    let arguments = json!({"command": line, "workdir": "/", "timeout_ms": limit});
    let probe = Probe::start();
    let ids: Vec<_> = (0..COMMANDS).map(|_| client.begin("shell", "t", arguments.clone())).collect();
    let mut late: Vec<u64> = Vec::new();
    for id in ids {
        let answer = client.answer(id);
        assert_eq!(answer["timed_out"], true);
        late.push(answer["active_ms"].as_u64().unwrap() - limit);
    }
    assert_eq!(process_with(&mark), None);
    late.sort_unstable();
    let at = |part: usize| late[late.len() * part / 100];
    let machine = probe.late();
    println!(
        "{COMMANDS} limits: late by {} ms in the median, {} ms at 90%, {} ms at most; a sleep: {machine:?}",
        at(50),
        at(90),
        at(99)
    );
    assert!(at(50) <= 20 || machine > Duration::from_millis(5), "{late:?}");

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
    // What the first ones cost is the server's own.
    let before = hang(50);
    let each = hang(100).saturating_sub(before) / 100;
    println!("an idle session: {each} bytes");
    assert!(each <= 64 * 1_024, "{each}");
}
