//! The exec server: its commands, and what all callers share.
use super::commands::Commands;
use super::config::Config;
use super::pending::Pending;
use super::scope::Scope;
use std::{fmt, sync::Arc};
use tokio_util::sync::CancellationToken;

/// The exec server: its commands, and what is the same for all callers.
pub(crate) struct ExecServer {
    pub(super) config: Config,
    pub(super) commands: Arc<Commands>,
    pub(super) pending: Pending,
    /// Whose commands those of requests without a session are.
    pub(super) shared: Scope,
    pub(super) shutdown: CancellationToken,
}

impl fmt::Debug for ExecServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecServer")
            .field("config", &self.config)
            .field("commands", &self.commands)
            .finish_non_exhaustive()
    }
}

impl ExecServer {
    /// Needs a tokio runtime; on Linux, commands die with the thread that runs it.
    pub(crate) fn new(config: Config) -> Arc<Self> {
        let commands = Commands::new(config.clone());
        let shutdown = CancellationToken::new();
        let shared = Scope::new(config.thread_id.clone(), &shutdown);
        Arc::new(Self { config, commands, pending: Pending::new(), shared, shutdown })
    }

    /// Ends every command and waits until nothing of them is left.
    pub(crate) async fn shutdown(&self) {
        self.shutdown.cancel();
        self.commands.all_ended().await;
    }
}
