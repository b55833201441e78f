//! The coordinator that tells when the thread is paused: the configured one, or a private one in this process.
//!
//! 1. A private coordinator listens before the command starts, in a directory that nobody else can enter, and leaves
//!    nothing behind: its state is in memory, and the directory goes when it is dropped.
use crate::{
    client::{Address, Client, Config},
    server::{self, Listen, Server, StoreConfig},
};
use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

/// Ends an elicitation whose holder asked for no lease, as `serve` does by default: a lost decrement must not freeze a
/// command for ever (G2).
const ANONYMOUS_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Where the command and its clock find the pauses of the thread.
pub(super) struct Coordinator {
    address: Address,
    private: Option<TempDir>,
}

impl Coordinator {
    /// The one that the user runs.
    pub(super) fn configured(address: Address) -> Self {
        Self { address, private: None }
    }

    /// A new one, served by the runtime that this is called on for as long as that runs.
    pub(super) async fn private() -> Result<Self, String> {
        // The path of a Unix socket has at most 107 bytes: a deep TMPDIR may leave no room.
        let mut bases = vec![std::env::temp_dir()];
        bases.extend((bases[0] != Path::new("/tmp")).then(|| PathBuf::from("/tmp")));
        let mut problem = String::new();
        for base in bases {
            match Self::private_beneath(&base).await {
                Ok(coordinator) => return Ok(coordinator),
                Err(why) => problem = why,
            }
        }
        Err(problem)
    }

    async fn private_beneath(base: &Path) -> Result<Self, String> {
        let directory = tempfile::Builder::new()
            .prefix("pausewatch-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(base)
            .map_err(|error| error.to_string())?;
        let socket = directory.path().join("socket");
        let server = Server::start(server::Config {
            listen: vec![Listen::Unix(socket.clone())],
            store: StoreConfig::Memory,
            anonymous_ttl: Some(ANONYMOUS_TTL),
            insecure: false,
            workers: 1,
        });
        let server = server.await.map_err(|error| error.to_string())?;
        tokio::spawn(server.run(std::future::pending()));
        Ok(Self { address: Address::Unix(socket), private: Some(directory) })
    }

    pub(super) fn is_private(&self) -> bool {
        self.private.is_some()
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn client(&self) -> Client {
        Client::with_config(&Config { address: self.address.clone(), ..Config::default() })
    }
}
