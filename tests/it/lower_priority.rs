//! Threads of the server that no caller waits for have a lower priority
//! (docs/decisions/0006-checkpoints-have-a-lower-priority.md).
use crate::support::{PATIENCE, Process, skipped, timed};
use pausewatch::proto::v1::IncrementElicitationRequest;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// In nanoseconds.
const SLICE: u64 = 100_000;

/// The nice value and the time slice of a thread of the server, from Linux.
fn scheduling(server: &Process, name: &str) -> Option<(i32, Option<u64>)> {
    let task =
        fs::read_dir(format!("/proc/{}/task", server.id())).unwrap().map(|task| task.unwrap().path()).find(|task| {
            let comm = fs::read_to_string(task.join("comm"));
            comm.is_ok_and(|comm| comm.trim() == name)
        })?;
    // The 19th field of proc_pid_stat(5); the second is the name, in parentheses.
    let stat = fs::read_to_string(task.join("stat")).ok()?;
    let nice = stat.rsplit_once(") ")?.1.split(' ').nth(16)?.parse().ok()?;
    let sched = fs::read_to_string(task.join("sched")).unwrap_or_default();
    let slice = sched.lines().find_map(|line| line.strip_prefix("se.slice"));
    Some((nice, slice.and_then(|rest| rest.trim_start_matches([' ', ':']).parse().ok())))
}

/// Waits until the thread has the lower priority: it starts with the normal one.
async fn stands_back(server: &Process, name: &str) {
    let end = Instant::now() + PATIENCE;
    let own = rustix::process::getpriority_process(None).unwrap();
    let slices = shows_slices();
    loop {
        let seen = scheduling(server, name);
        if seen.is_some_and(|(nice, slice)| nice == own.max(5) && (!slices || slice == Some(SLICE))) {
            return;
        }
        assert!(Instant::now() < end, "the thread {name:?}: {seen:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Since Linux 6.12, a thread can set its time slice (sched_setattr(2), `sched_runtime`).
fn shows_slices() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let can = (numbers.next(), numbers.next()) >= (Some(6), Some(12)) && fs::exists("/proc/self/sched").unwrap();
    if !can {
        skipped("slices", "this kernel sets no slices, or does not show them; Linux 6.12 does");
    }
    can
}

#[tokio::test]
async fn the_thread_of_checkpoints_stands_back() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    stands_back(&server, "checkpoint").await;
}

#[tokio::test]
async fn the_thread_of_a_backup_stands_back() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let mut api = server.api().await;
    // More than a socket buffers unread, so that the thread still exists.
    for _ in 0..900 {
        let request =
            IncrementElicitationRequest { thread_id: "t".into(), reason: "r".repeat(1_024), ..Default::default() };
        timed("increment", api.0.increment_elicitation(request)).await.unwrap();
    }
    let mut connection = UnixStream::connect(directory.path().join("control")).unwrap();
    connection.write_all(b"backup 1\n").unwrap();
    let mut answer = [0; 3];
    connection.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ok\n");
    stands_back(&server, "backup").await;
}
