//! The messages to a service manager (systemd, Type=notify).
use crate::program::{Process, program};
use crate::support::PATIENCE;
use rustix::process::Signal;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tonic::Code;

/// Starts a server with the manager's socket.
fn started(socket: &UnixDatagram, name: &str, watchdog: &str) -> Process {
    started_with(socket, name, watchdog, &[])
}

fn started_with(socket: &UnixDatagram, name: &str, watchdog: &str, options: &[&str]) -> Process {
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut command = program();
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--workers", "2"]).args(options);
    command.env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", watchdog).env_remove("WATCHDOG_PID");
    Process::start(command)
}

fn told(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 512];
    let length = socket.recv(&mut bytes).expect("it is told something");
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

#[test]
fn the_service_manager_is_notified_of_start_watchdog_and_stop() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let server = started(&socket, path.to_str().unwrap(), "300000");
    let address = server.line().strip_prefix("listening ").unwrap().to_owned();
    assert_eq!(told(&socket), format!("READY=1\nSTATUS=Serving at {address}"));
    for _ in 0..3 {
        assert_eq!(told(&socket), "WATCHDOG=1");
    }
    server.signal(Signal::TERM);
    let mut last = told(&socket);
    while last == "WATCHDOG=1" {
        last = told(&socket);
    }
    assert_eq!(last, "STOPPING=1\nSTATUS=Answering what is in flight");
    assert_eq!(server.end().code, Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_socket_without_a_file_will_do() {
    use std::os::linux::net::SocketAddrExt;
    let name = format!("pausewatch-test-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let server = started(&socket, &format!("@{name}"), "0");
    assert!(told(&socket).starts_with("READY=1\n"));
    server.signal(Signal::TERM);
    assert!(told(&socket).starts_with("STOPPING=1\n"), "without a watchdog, no keep-alive is sent");
}

#[test]
fn a_manager_that_is_gone_does_not_keep_it_from_serving() {
    let socket = UnixDatagram::unbound().unwrap();
    let server = started(&socket, "/proc/nonexistent/notify", "300000");
    assert!(server.line().starts_with("listening "));
    server.signal(Signal::TERM);
    assert_eq!(server.end().code, Some(0));
}

/// A server that refuses calls is alive: flooded up to its limit, it must not be restarted.
#[test]
fn the_watchdog_is_notified_while_calls_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let server = started_with(&socket, path.to_str().unwrap(), "300000", &["--max-calls-per-second", "5"]);
    let address = server.line().strip_prefix("listening ").unwrap().to_owned();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut api = runtime.block_on(crate::support::api(&address));
    let refused = Arc::new(AtomicU64::new(0));
    let flood = runtime.spawn({
        let refused = refused.clone();
        async move {
            loop {
                match api.try_increment("t", "", None).await {
                    Ok(_) => {}
                    Err(status) if status.code() == Code::ResourceExhausted => _ = refused.fetch_add(1, Relaxed),
                    // If the connection is lost, this fails at once: to continue would block the thread for ever.
                    Err(status) => return status,
                }
            }
        }
    });
    while !told(&socket).starts_with("READY=1\n") {}
    let end = Instant::now() + PATIENCE;
    while refused.load(Relaxed) == 0 {
        assert!(Instant::now() < end && !flood.is_finished(), "no call is refused");
        assert_eq!(told(&socket), "WATCHDOG=1");
    }
    // Those that were sent before the first refusal may still wait in the socket.
    socket.set_nonblocking(true).unwrap();
    while socket.recv(&mut [0; 512]).is_ok() {}
    socket.set_nonblocking(false).unwrap();
    for _ in 0..20 {
        assert_eq!(told(&socket), "WATCHDOG=1");
    }
    assert!(!flood.is_finished(), "the flood lasts during the whole test");
}
