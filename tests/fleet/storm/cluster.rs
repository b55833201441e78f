//! Three members of etcd. Each can be killed, stopped, and cut off from the data of the others.
use crate::etcd::{is_installed, report};
use crate::proxy::Proxy;
use crate::support::{PATIENCE, Port};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

pub(crate) const MEMBERS: usize = 3;

pub(crate) struct Cluster {
    pub(crate) members: Vec<Member>,
    _data: TempDir,
}

/// A member. It is killed when this is dropped, and when the test program ends.
pub(crate) struct Member {
    /// The address for clients.
    pub(crate) address: String,
    /// The connections from the other members.
    pub(crate) peers: Proxy,
    _ports: [Port; 2],
    arguments: Vec<String>,
    running: Option<(Child, Pid)>,
}

impl Cluster {
    /// Starts a cluster, and waits until it has a leader. `None`: skipped.
    pub(crate) async fn start() -> Option<Self> {
        report(is_installed());
        if !is_installed() {
            return None;
        }
        let data = tempfile::tempdir().expect("a directory");
        let mut reached = Vec::new();
        for _ in 0..MEMBERS {
            let ports = [(); 2].map(|()| Port::reserve().expect("a free port"));
            let proxy = Proxy::start(vec![ports[1].address.to_string()]).await;
            reached.push((proxy, ports));
        }
        let named = reached.iter().enumerate().map(|(i, (proxy, _))| format!("member-{i}=http://{}", proxy.address));
        let all = named.collect::<Vec<_>>().join(",");
        let member = |(i, (peers, ports))| Member::new(i, peers, data.path(), &all, ports);
        let mut members: Vec<_> = reached.into_iter().enumerate().map(member).collect();
        // All at once, because each waits for the others.
        members.iter_mut().for_each(Member::begin);
        let cluster = Cluster { members, _data: data };
        let give_up = Instant::now() + PATIENCE;
        while cluster.leader().await.is_none() {
            assert!(Instant::now() < give_up, "etcd has no leader");
            sleep(Duration::from_millis(50)).await;
        }
        Some(cluster)
    }

    /// The member that leads, according to the members that answer.
    pub(crate) async fn leader(&self) -> Option<usize> {
        for (i, member) in self.members.iter().enumerate() {
            if member.leads().await {
                return Some(i);
            }
        }
        None
    }
}

impl Member {
    /// `ports`: for clients, and for the other members.
    fn new(number: usize, peers: Proxy, data: &Path, all: &str, ports: [Port; 2]) -> Self {
        let [address, peer] = ports.each_ref().map(|port| port.address.to_string());
        let directory = data.join(number.to_string());
        let (client, peer) = (format!("http://{address}"), format!("http://{peer}"));
        let (name, directory) = (format!("member-{number}"), directory.to_str().expect("it is text"));
        let advertised = format!("http://{}", peers.address);
        let arguments = [
            ["--name", &name],
            ["--data-dir", directory],
            ["--listen-client-urls", &client],
            ["--advertise-client-urls", &client],
            ["--listen-peer-urls", &peer],
            ["--initial-advertise-peer-urls", &advertised],
            ["--initial-cluster", all],
            ["--log-level", "error"],
        ];
        let arguments = arguments.into_iter().flatten().map(str::to_owned).collect();
        Member { address, peers, _ports: ports, arguments, running: None }
    }

    /// Starts it with its data on disk.
    pub(crate) fn begin(&mut self) {
        let mut command = Command::new("sh");
        // However the test ends, its end closes the pipe.
        let script = "etcd \"$@\" >/dev/null 2>&1 & echo $!; read -r _; kill -9 $!; wait";
        command.args(["-c", script, "etcd"]).args(&self.arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("sh is there");
        let mut line = String::new();
        let read = BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line);
        read.expect("sh writes a line");
        let pid = line.trim().parse().ok().and_then(Pid::from_raw);
        self.running = Some((child, pid.expect("a process id")));
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(crate) fn kill(&mut self) {
        if let Some((mut child, _)) = self.running.take() {
            drop(child.stdin.take());
            child.wait().expect("it was ours");
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let (_, pid) = self.running.as_ref().expect("it runs");
        kill_process(*pid, signal).expect("etcd runs");
    }

    async fn leads(&self) -> bool {
        let metrics = async {
            let mut stream = TcpStream::connect(&self.address).await?;
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        let answer = timeout(Duration::from_millis(300), metrics).await;
        answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.contains("\netcd_server_is_leader 1\n")))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}
