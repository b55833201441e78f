//! The owner of commands: a caller, or the server for calls without a session.
use rmcp::{RoleServer, service::RequestContext};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio_util::sync::CancellationToken;

/// The context of an MCP call.
pub(super) type Context = RequestContext<RoleServer>;

/// Whose commands they are.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) number: u64,
    /// The thread of calls that name none; `None`: a new one for each.
    pub(super) thread_id: Option<String>,
    /// Its commands are to end.
    pub(super) gone: CancellationToken,
}

impl Scope {
    pub(super) fn new(thread_id: Option<String>, shutdown: &CancellationToken) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self { number: NUMBERS.fetch_add(1, Relaxed), thread_id, gone: shutdown.child_token() }
    }
}
