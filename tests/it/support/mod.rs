//! Shared by tests of the server: servers in this process, servers as processes, and short ways to call them.
mod calls;
pub(crate) mod certs;
mod delayed;
pub(crate) mod disk;
mod honest;
pub(crate) mod http2;
pub(crate) mod model;
mod port;
mod process;
mod sandboxed;
mod scrape;
mod skipped;

pub(crate) use calls::{Api, api, call_path, call_path_with, channel, detail, event, narrow, states, timed};
pub(crate) use delayed::DelayedAnswers;
pub(crate) use honest::{Report, beside};
pub(crate) use port::Port;
pub(crate) use process::{Process, children};
pub(crate) use sandboxed::sandboxed;
pub(crate) use scrape::{Samples, ask, scrape};
pub(crate) use skipped::skipped;

use pausewatch::server::{Config, Listen, Server, StoreConfig};
use std::path::Path;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Nothing that the tests wait for takes this long, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A server on the runtime of the test.
pub(crate) struct Running {
    pub(crate) address: String,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

/// Any free port, a memory store, leases of a day.
pub(crate) fn config() -> Config {
    Config {
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        store: StoreConfig::Memory,
        anonymous_ttl: Some(Duration::from_secs(24 * 60 * 60)),
        ..Config::default()
    }
}

pub(crate) fn embedded(directory: &Path) -> Config {
    Config { store: StoreConfig::Embedded(directory.to_owned()), ..config() }
}

pub(crate) fn unix(path: &Path) -> Listen {
    Listen::Unix(path.to_owned())
}

impl Running {
    pub(crate) async fn start(config: Config) -> Self {
        Self::of(Server::start(config).await.expect("the server starts"))
    }

    pub(crate) fn of(server: Server) -> Self {
        let address = server.addresses()[0].clone();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move { _ = stopped.await };
        Running { address, stop, served: tokio::spawn(server.run(shutdown)) }
    }

    /// Opens a new connection.
    pub(crate) async fn api(&self) -> Api {
        api(&self.address).await
    }

    /// Tells the server to stop, and returns the task that waits for its end.
    pub(crate) fn stop(self) -> JoinHandle<()> {
        _ = self.stop.send(());
        self.served
    }
}
