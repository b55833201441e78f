//! A coordinator in this process, for the tests of programs that use [`client`](crate::client) and [`stopwatch`](crate::stopwatch).
//!
//! It is a real coordinator, like `pausewatch serve --store memory`, on a free port of this machine: counts, leases,
//! watches and errors are those of production. It needs the features `client` and `server`:
//!
//! ```toml
//! [dev-dependencies]
//! pausewatch = { version = "0.1", default-features = false, features = ["client", "server"] }
//! ```
use crate::client::{Address, Client, ConfigError};
use crate::server::{Config, Listen, Server, StartError};
use tokio::{sync::oneshot, task::JoinHandle};

/// A coordinator that serves until it is stopped or dropped.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use pausewatch::{client::GetPauseStateRequest, testing::TestCoordinator};
///
/// let coordinator = TestCoordinator::start().await?;
/// let client = coordinator.client()?;
/// let hold = client.hold("thread-1").reason("May I?").open().await?;
/// // ... what is tested finds the thread paused ...
/// let request = GetPauseStateRequest { thread_id: "thread-1".into() };
/// assert!(client.get_pause_state(request).await?.pause_state.is_some_and(|state| state.paused));
/// hold.release().await?;
/// coordinator.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "it is stopped when it is dropped"]
pub struct TestCoordinator {
    address: Address,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl TestCoordinator {
    /// Starts a coordinator on a free port of 127.0.0.1, with its state in memory.
    ///
    /// # Errors
    /// See [`StartError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn start() -> Result<Self, StartError> {
        Self::start_with(Config::default(), "127.0.0.1:0").await
    }

    /// Starts a coordinator with other settings. `listen`: `HOST:PORT`, for example the [`address`](Self::address) of
    /// one that was stopped; `config.listen` is ignored.
    ///
    /// # Errors
    /// See [`StartError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn start_with(config: Config, listen: &str) -> Result<Self, StartError> {
        let server = Server::start(Config { listen: vec![Listen::Tcp(listen.to_owned())], ..config }).await?;
        let address = server.addresses().swap_remove(0);
        let address = address.parse().expect("a server shows its address as clients take it");
        let (stop, stopped) = oneshot::channel();
        // Dropping the sender stops it too.
        let running = tokio::spawn(server.run(async move { drop(stopped.await) }));
        Ok(Self { address, stop, running })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A new client of it.
    ///
    /// # Errors
    /// It has TLS, and the system's certificates cannot be read.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn client(&self) -> Result<Client, ConfigError> {
        Client::new(&self.address)
    }

    /// Stops it like SIGTERM, and waits until nobody is served any more: at most 5 s.
    pub async fn stop(self) {
        drop(self.stop);
        // If it has panicked, the tests show it.
        let _ = self.running.await;
    }
}
