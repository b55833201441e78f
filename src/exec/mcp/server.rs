//! The exec server: its commands, and what all callers share.
use super::{commands::Commands, config::Config, pending::PendingApprovals, scope::Scope};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The exec server: its commands, and what all callers share.
pub(crate) struct ExecServer {
    pub(super) config: Config,
    pub(super) commands: Arc<Commands>,
    pub(super) pending: PendingApprovals,
    /// Owns the commands of HTTP requests without a session.
    pub(super) sessionless: Scope,
    pub(super) shutdown: CancellationToken,
}

impl ExecServer {
    /// Needs a tokio runtime. On Linux, commands die with the thread that runs it.
    pub(crate) fn new(config: Config) -> Arc<Self> {
        let commands = Commands::new(config.clone());
        let shutdown = CancellationToken::new();
        let sessionless = Scope::new(config.thread_id.clone(), &shutdown);
        let pending = PendingApprovals::new(config.limits.max_pause);
        Arc::new(Self { config, commands, pending, sessionless, shutdown })
    }

    /// Ends every command and waits until none of their processes is left.
    pub(crate) async fn shutdown(&self) {
        self.shutdown.cancel();
        self.commands.wait_until_empty().await;
    }
}
