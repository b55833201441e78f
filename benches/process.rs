//! Servers as child processes, which are killed when they are dropped.
use crate::result::Result;
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The maximum number of files that a server opens besides connections.
const SERVER_FILES: usize = 100;
/// The maximum time until a server listens.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that listens.
pub(crate) struct Process {
    child: Child,
    /// `HOST:PORT`.
    pub(crate) address: String,
}

impl Process {
    /// Starts a server that prints `listening ADDRESS` (`https://` before it: over TLS) when it is ready.
    pub(crate) fn listening(mut command: Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().expect("it is piped");
        // From here on it owns the child, which is then killed in any case.
        let mut process = Process { child, address: String::new() };
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let address = line.trim_end().strip_prefix("listening ");
        let address = address.ok_or_else(|| format!("{command:?} said {line:?}"))?;
        process.address = address.trim_start_matches("https://").to_owned();
        Ok(process)
    }

    /// Starts a server that is ready when it accepts connections on `address`.
    pub(crate) fn connectable(command: Command, address: SocketAddr) -> Result<Self> {
        Ok(Self::connectable_all(vec![(command, address)])?.remove(0))
    }

    /// Starts servers that wait for each other.
    pub(crate) fn connectable_all(commands: Vec<(Command, SocketAddr)>) -> Result<Vec<Self>> {
        let mut started = Vec::new();
        for (mut command, address) in commands {
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
            started.push((Process { child, address: address.to_string() }, command, address));
        }
        let ready = started.into_iter().map(|(process, command, address)| process.ready(&command, address));
        ready.collect()
    }

    fn ready(self, command: &Command, address: SocketAddr) -> Result<Self> {
        let mut process = self;
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if begun.elapsed() > PATIENCE || process.child.try_wait()?.is_some() {
                return Err(format!("{command:?} does not listen").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(process)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        Ok(rustix::process::kill_process(pid, signal)?)
    }

    /// Stops it with SIGTERM, and waits for its end.
    pub(crate) fn terminate(mut self) -> Result<()> {
        self.signal(rustix::process::Signal::TERM)?;
        match self.child.wait()? {
            status if status.success() => Ok(()),
            status => Err(format!("the server ended with {status}").into()),
        }
    }

    /// Kills it as a crash would, and waits for its end.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Different addresses on loopback that were free a moment ago.
pub(crate) fn free_addresses(count: usize) -> Result<Vec<SocketAddr>> {
    // All are bound at the same time, because one that is free again could be returned twice.
    let listeners = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<io::Result<Vec<_>>>()?;
    Ok(listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?)
}

/// The maximum number of open files of this process.
pub(crate) fn open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// Allows this process and its children as many connections as the system allows.
pub(crate) fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// `pausewatch serve` on a free port of loopback.
pub(crate) fn serve(program: &Path, args: &[&str]) -> Command {
    let mut command = serve_at(program, "127.0.0.1:0");
    command.args(args);
    command
}

pub(crate) fn serve_at(program: &Path, address: &str) -> Command {
    let mut command = Command::new(program);
    // Many clients share one address. If the limit exceeded that of open files, a caller would get half of what these
    // allow.
    let connections = open_files().saturating_sub(SERVER_FILES).min(65_536).to_string();
    command.args(["serve", "--listen", address, "--max-connections", &connections]);
    // Logging is on, as by default, but not to this terminal.
    command.args(["--max-connections-per-caller", &connections]).stderr(Stdio::null());
    command
}
