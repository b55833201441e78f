//! A real file system that is full, under a running server.
use crate::support::{Api, PATIENCE, Process, detail, event, scrape, skipped, states};
use pausewatch::proto::v1::watch_pause_state_response::Event;
use rustix::process::Signal;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A small file system in memory, which is unmounted when this is dropped.
struct Mounted(tempfile::TempDir);

impl Mounted {
    /// `None`: this process may not mount.
    fn new(mebibytes: u32) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path()).output();
        match mounted {
            Ok(output) if output.status.success() => return Some(Mounted(directory)),
            failed => {
                skipped("tmpfs", format!("it cannot be mounted: {failed:?}"));
            }
        }
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

/// A server, and the URL of its metrics.
fn serve(data: &Path) -> (Process, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--data-dir"]).arg(data);
    let mut server = Process::start(command);
    let metrics = server.metrics();
    (server, metrics)
}

async fn is_writable(metrics: &str) -> bool {
    scrape(metrics).await.get("pausewatch_store_writable") == 1.0
}

/// Asserts on the log of a server: one line when increments are refused, and one when they are accepted again.
fn said_once(server: Process) {
    server.signal(Signal::TERM);
    let (_, said) = server.end();
    for line in ["increments are refused why=\"its disk is full\"", "increments are accepted again"] {
        assert_eq!(said.matches(line).count(), 1, "{line}: {said}");
    }
}

/// Uses up all free space.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    while file.write_all(&[7; 4_096]).is_ok() {}
}

async fn increment_when_there_is_room(api: &mut Api, thread: &str) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(status) = api.try_increment(thread, "later", None).await {
        assert_eq!(detail(&status).0, "STORE_UNAVAILABLE");
        assert!(Instant::now() < deadline, "there has long been space again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn on_a_full_disk_increments_are_refused_and_all_else_goes_on() {
    let Some(mounted) = Mounted::new(16) else { return };
    let (data, ballast) = (mounted.path().join("data"), mounted.path().join("ballast"));
    let (server, metrics) = serve(&data);
    let mut api = server.api().await;
    for i in 0..900 {
        api.increment(&format!("t{}", i % 3), Some(Duration::from_secs(3_600))).await;
    }
    let leased = api.increment("t0", Some(Duration::from_secs(3_600))).await.elicitation.unwrap().elicitation_id;
    let mut watching = api.watch(&["t0"]).await;
    states(&mut watching).await;
    assert!(is_writable(&metrics).await);
    fill(&ballast);
    let refused = api.try_increment("t0", "later", None).await.expect_err("the disk is full");
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    let (reason, metadata) = detail(&refused);
    assert_eq!((reason.as_str(), metadata["why"].as_str()), ("STORE_UNAVAILABLE", "its disk is full"));
    assert!(!is_writable(&metrics).await, "the metric must make the alert fire");
    api.try_renew("t0", &leased, None).await.expect("a renewal needs no disk");
    for left in (0..300).rev() {
        for thread in ["t0", "t1", "t2"] {
            let closed = api.try_decrement(thread, &format!("r{left}"), None).await.expect("a decrement has room");
            assert_eq!(closed.count, left + u32::from(thread == "t0"));
        }
    }
    let state = api.get("t0").await;
    assert_eq!((state.count, api.get("t1").await.count), (1, 0));
    loop {
        if let Event::PauseState(seen) = event(&mut watching).await
            && seen.revision == state.revision
        {
            break;
        }
    }
    let still = api.try_increment("new", "later", None).await.expect_err("it is full still");
    assert_eq!(detail(&still).0, "STORE_UNAVAILABLE");
    std::fs::remove_file(&ballast).unwrap();
    increment_when_there_is_room(&mut api, "new").await;
    increment_when_there_is_room(&mut api, "t0").await;
    assert!(is_writable(&metrics).await);
    said_once(server);
    let server = Process::serve(&data, "127.0.0.1:0");
    let mut api = server.api().await;
    for (thread, count) in [("t0", 2), ("t1", 0), ("t2", 0), ("new", 1)] {
        assert_eq!(api.get(thread).await.count, count, "{thread} after kill -9");
    }
}

/// A server can start on a full disk, so that paused threads can continue.
#[tokio::test]
async fn a_server_that_starts_on_a_full_disk_takes_decrements() {
    let Some(mounted) = Mounted::new(16) else { return };
    let (data, ballast) = (mounted.path().join("data"), mounted.path().join("ballast"));
    let server = Process::serve(&data, "127.0.0.1:0");
    let mut api = server.api().await;
    for _ in 0..50 {
        api.increment("t", None).await;
    }
    fill(&ballast);
    server.kill();
    let (server, metrics) = serve(&data);
    assert!(!is_writable(&metrics).await, "it is full from the start");
    let mut api = server.api().await;
    assert_eq!(api.get("t").await.count, 50);
    let refused = api.try_increment("t", "later", None).await.expect_err("the disk is full");
    assert_eq!(detail(&refused).0, "STORE_UNAVAILABLE");
    for left in (0..50).rev() {
        assert_eq!(api.try_decrement("t", "", None).await.expect("a decrement has room").count, left);
    }
    std::fs::remove_file(&ballast).unwrap();
    increment_when_there_is_room(&mut api, "t").await;
    assert!(is_writable(&metrics).await);
    said_once(server);
}

/// The database is created before its reserve: if there is not enough space for both, a first start behaves like a
/// start on a full disk.
#[tokio::test]
async fn a_first_start_on_a_small_disk_listens() {
    for mebibytes in [4, 9, 10, 11] {
        let Some(mounted) = Mounted::new(mebibytes) else { return };
        let server = Process::serve(&mounted.path().join("data"), "127.0.0.1:0");
        let mut api = server.api().await;
        let refused = api.try_increment("t", "", None).await.expect_err("there is no room for the reserve");
        assert_eq!(detail(&refused).1["why"], "its disk is full", "{mebibytes} MiB");
    }
}

/// The kernel kills a process at its file size limit, unless the process handles the signal.
#[tokio::test]
async fn a_limit_of_file_sizes_is_a_full_disk() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Process::serve(&data, "127.0.0.1:0");
    server.api().await.increment("t", None).await;
    server.kill();
    // The reserve is created again, with its 8 MiB.
    std::fs::remove_file(data.join("reserve")).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 4096 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_pausewatch"), "serve"]);
    command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
    let server = Process::start(command);
    let mut api = server.api().await;
    let refused = api.try_increment("t", "later", None).await.expect_err("there is no room for the reserve");
    assert_eq!(detail(&refused).1["why"], "its disk is full");
    assert_eq!(api.try_decrement("t", "", None).await.expect("a decrement has room").count, 0);
    drop(api);
    server.signal(Signal::TERM);
    let (status, said) = server.end();
    assert!(status.success(), "{status}: {said}");
}

/// The message must show the reader which disk is full.
#[test]
fn a_backup_to_a_full_disk_names_the_backup() {
    let Some(mounted) = Mounted::new(1) else { return };
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path(), "127.0.0.1:0");
    fill(&mounted.path().join("ballast"));
    let backup = mounted.path().join("monday.backup");
    let said = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
        let output = command.args(["backup", "--data-dir"]).arg(data.path()).arg(&backup).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let expected = format!("pausewatch backup: {}: No space left on device (os error 28)\n", backup.display());
    assert_eq!(said(), expected, "the backup of a running server");
    server.kill();
    assert_eq!(said(), expected, "the backup of the files alone");
}
