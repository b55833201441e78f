//! HTTP sessions that their clients delete.
//!
//! The MCP library drops the handler of a deleted session only some seconds later. Nobody reads the responses of its calls
//! any more, so this ends its commands at once.
use super::scope::{Context, Scope};
use http::request::Parts;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// The header that names a session.
pub(super) const SESSION_HEADER: &str = "mcp-session-id";

/// The sessions that have called a tool.
#[derive(Default)]
pub(super) struct Deletions(Mutex<HashMap<String, Caller>>);

struct Caller {
    /// The id of its scope.
    owner: u64,
    /// Cancelled when the session is deleted.
    closed: CancellationToken,
}

impl Deletions {
    /// While the returned guard lives, the deletion of the call's session closes `scope`. `None`: the call has no session.
    pub(super) fn register(self: &Arc<Self>, context: &Context, scope: &Scope) -> Option<Registered> {
        let session = context.extensions.get::<Parts>()?.headers.get(SESSION_HEADER)?.to_str().ok()?.to_owned();
        self.sessions().insert(session.clone(), Caller { owner: scope.id, closed: scope.closed.clone() });
        Some(Registered { deletions: self.clone(), session })
    }

    /// Cancels the token of a deleted session.
    pub(super) fn on_delete(&self, session: &str) {
        if let Some(caller) = self.sessions().remove(session) {
            caller.closed.cancel();
        }
    }

    /// The owner of the commands of a session; `None`: it has called no tool.
    pub(super) fn owner(&self, session: &str) -> Option<u64> {
        self.sessions().get(session).map(|caller| caller.owner)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Caller>> {
        // Each change is one insertion or removal.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Deletions::register`].
pub(super) struct Registered {
    deletions: Arc<Deletions>,
    session: String,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.deletions.sessions().remove(&self.session);
    }
}
