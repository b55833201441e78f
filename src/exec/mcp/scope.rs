//! The owner of commands: a caller, or the server for calls without a session.
use rmcp::{RoleServer, service::RequestContext};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio_util::sync::CancellationToken;

/// The context of an MCP call.
pub(super) type Context = RequestContext<RoleServer>;

/// The owner of commands. Only calls of the same scope find them.
pub(super) struct Scope {
    pub(super) id: u64,
    /// The thread of calls that name none; `None`: a new thread for each call.
    pub(super) thread_id: Option<String>,
    /// Cancelled when the owner has gone; that ends its commands.
    pub(super) closed: CancellationToken,
}

impl Scope {
    pub(super) fn new(thread_id: Option<String>, shutdown: &CancellationToken) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT_ID.fetch_add(1, Relaxed), thread_id, closed: shutdown.child_token() }
    }
}
