//! The environment of a replica: a fixed address, and proxies for its connections to etcd, from the other replicas and
//! from clients.
use crate::proxy::Proxy;
use crate::support::{PATIENCE, Process};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

/// The delay after which a process that ended by itself is restarted, as a service manager would.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

pub(crate) struct Site {
    /// The address of the replica itself, behind the proxies.
    pub(crate) address: String,
    /// One proxy to each member of etcd.
    pub(crate) etcd: Vec<Proxy>,
    pub(crate) peers: Proxy,
    pub(crate) clients: Proxy,
    prefix: String,
    state: State,
}

enum State {
    Running(Process),
    Starting(JoinHandle<Process>),
    Ending(JoinHandle<(ExitStatus, String)>),
    Gone,
}

impl Site {
    /// Starts a replica over the etcd at `urls`.
    pub(crate) async fn start(urls: &[String], prefix: &str) -> Self {
        let mut etcd = Vec::new();
        for url in urls {
            etcd.push(Proxy::start(vec![url.trim_start_matches("http://").to_owned()]).await);
        }
        let (peers, clients) = (Proxy::start(Vec::new()).await, Proxy::start(Vec::new()).await);
        let (address, prefix) = ("127.0.0.1:0".to_owned(), prefix.to_owned());
        let mut site = Site { address, etcd, peers, clients, prefix, state: State::Gone };
        site.begin();
        site.runs().await;
        site.address = site.process().address.clone();
        site.peers.turn_to(vec![site.address.clone()]);
        site.clients.turn_to(vec![site.address.clone()]);
        site
    }

    /// Starts the replica again and again, until it stays. It needs the proxies meanwhile, so this does not block.
    pub(crate) fn begin(&mut self) {
        let etcd: Vec<_> = self.etcd.iter().map(|way| format!("http://{}", way.address)).collect();
        let command = {
            let (endpoints, prefix) = (etcd.join(","), self.prefix.clone());
            let (listen, advertise) = (self.address.clone(), self.peers.address.clone());
            move || {
                let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
                command.args(["serve", "--store", "etcd", "--etcd-prefix", &prefix, "--etcd-endpoints", &endpoints]);
                command.args(["--listen", &listen, "--advertise", &advertise]);
                command
            }
        };
        self.state = State::Starting(tokio::spawn(async move {
            loop {
                let command = command();
                let started = spawn_blocking(|| {
                    let mut process = Process::try_start(command)?;
                    process.listen();
                    Ok::<_, String>(process)
                });
                match started.await.expect("no panic") {
                    Ok(process) => return process,
                    // While etcd is unavailable, it ends.
                    Err(said) => println!("a replica ended before it listened: {}", said.trim()),
                }
                sleep(AGAIN_AFTER).await;
            }
        }));
    }

    /// Waits until the replica runs.
    pub(crate) async fn runs(&mut self) {
        if let State::Starting(starting) = &mut self.state {
            let process = timeout(PATIENCE, starting).await.expect("it starts").expect("no panic");
            self.state = State::Running(process);
        }
    }

    /// Restarts the replica if it has ended meanwhile; returns whether it runs.
    pub(crate) async fn is_running(&mut self) -> bool {
        if matches!(&self.state, State::Starting(starting) if starting.is_finished()) {
            self.runs().await;
        }
        matches!(self.state, State::Running(_))
    }

    pub(crate) fn process(&self) -> &Process {
        match &self.state {
            State::Running(process) => process,
            _ => panic!("the replica does not run"),
        }
    }

    /// Its status and its output, if it has ended by itself.
    pub(crate) async fn ended_by_itself(&mut self) -> Option<(ExitStatus, String)> {
        let State::Running(process) = &mut self.state else { return None };
        process.ended()?;
        let State::Running(process) = std::mem::replace(&mut self.state, State::Gone) else { unreachable!() };
        Some(spawn_blocking(|| process.end()).await.expect("no panic"))
    }

    pub(crate) fn kill(&mut self) {
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Running(process) => process.kill(),
            _ => panic!("the replica does not run"),
        }
    }

    /// Makes the replica hand over and end.
    pub(crate) fn drain(&mut self) {
        let State::Running(process) = std::mem::replace(&mut self.state, State::Gone) else {
            panic!("the replica does not run");
        };
        process.signal(rustix::process::Signal::TERM);
        self.state = State::Ending(spawn_blocking(|| process.end()));
    }

    /// The exit status and the last output of a replica that was drained.
    pub(crate) async fn drained(&mut self) -> (ExitStatus, String) {
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Ending(ending) => ending.await.expect("it ends"),
            _ => panic!("the replica was not drained"),
        }
    }
}
