//! HTTP sessions that their clients delete.
//!
//! The library lets the calls of such a session go on for some seconds before it drops who served it. Nobody reads their
//! answers any more, so what they wait for is told to end at once.
use super::scope::Context;
use http::request::Parts;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio_util::sync::CancellationToken;

/// The header that names a session.
pub(super) const SESSION: &str = "mcp-session-id";

/// What to cancel when a session is deleted, for those sessions that have called a tool.
#[derive(Debug, Default)]
pub(super) struct Deletions(Mutex<HashMap<String, CancellationToken>>);

impl Deletions {
    /// From now on, as long as the result lives, the deletion of the session that a call belongs to cancels `gone`. `None`:
    /// the call belongs to none.
    pub(super) fn expect(self: &Arc<Self>, context: &Context, gone: &CancellationToken) -> Option<Expected> {
        let session = context.extensions.get::<Parts>()?.headers.get(SESSION)?.to_str().ok()?.to_owned();
        self.all().insert(session.clone(), gone.clone());
        Some(Expected { deletions: self.clone(), session })
    }

    /// The session has been deleted.
    pub(super) fn deleted(&self, session: &str) {
        if let Some(gone) = self.all().remove(session) {
            gone.cancel();
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        // Each change is one insertion or removal.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Deletions::expect`].
#[derive(Debug)]
pub(super) struct Expected {
    deletions: Arc<Deletions>,
    session: String,
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.deletions.all().remove(&self.session);
    }
}
