//! The HTTP sessions. Many clients never delete theirs, so a new one takes the place of one that nobody uses.
//!
//! 1. A session is in use while one of its requests has no complete response, and while it has a command.
//! 2. If there are more than [`MAX_SESSIONS`], the one that has been unused for longest ends. MCP allows a server to
//!    end sessions at any time: the client then gets 404, and starts another.
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::time::Instant;

/// The maximum number of sessions: fewer than the server admits, because an ended session still exists for some
/// seconds.
pub(super) const MAX_SESSIONS: usize = 768;

/// The sessions by their ids.
#[derive(Default)]
pub(super) struct HttpSessions(Mutex<HashMap<String, Use>>);

struct Use {
    requests: usize,
    last: Instant,
}

impl HttpSessions {
    /// Adds a new session, and returns the one to end for it, if there are too many. `has_command`: whether a
    /// session has a command.
    pub(super) fn add(&self, session: &str, has_command: impl Fn(&str) -> bool) -> Option<String> {
        let mut sessions = self.sessions();
        let unused = |session: &str, of: &Use| of.requests == 0 && !has_command(session);
        let oldest = match sessions.len() < MAX_SESSIONS {
            true => None,
            false => sessions.iter().filter(|(session, of)| unused(session, of)).min_by_key(|(_, of)| of.last),
        };
        let ended = oldest.map(|(session, _)| session.clone());
        ended.iter().for_each(|session| _ = sessions.remove(session));
        sessions.insert(session.to_owned(), Use { requests: 0, last: Instant::now() });
        ended
    }

    pub(super) fn remove(&self, session: &str) {
        self.sessions().remove(session);
    }

    /// A request of a session, which is in use until the result is dropped.
    pub(super) fn request(self: &Arc<Self>, session: &str) -> SessionRequest {
        self.sessions().get_mut(session).into_iter().for_each(|of| of.requests += 1);
        SessionRequest { sessions: self.clone(), session: session.to_owned() }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Use>> {
        // Each change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`HttpSessions::request`].
pub(super) struct SessionRequest {
    sessions: Arc<HttpSessions>,
    session: String,
}

impl Drop for SessionRequest {
    fn drop(&mut self) {
        if let Some(of) = self.sessions.sessions().get_mut(&self.session) {
            of.requests = of.requests.saturating_sub(1);
            of.last = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn the_session_that_was_not_used_for_longest_makes_room() {
        let sessions = Arc::new(HttpSessions::default());
        let add = async |session: &str| {
            tokio::time::advance(Duration::from_millis(1)).await;
            sessions.add(session, |session| session == "command")
        };
        for session in ["command", "asks", "used", "first", "second"] {
            assert_eq!(add(session).await, None);
        }
        let asks = sessions.request("asks");
        for number in 5..MAX_SESSIONS {
            assert_eq!(add(&number.to_string()).await, None);
        }
        drop(sessions.request("used"));
        assert_eq!(add("new").await.as_deref(), Some("first"));
        sessions.remove("7");
        assert_eq!(add("newer").await, None);
        drop(asks);
        drop(sessions.request("none"));
        let ended = [add("a").await, add("b").await].map(Option::unwrap);
        assert_eq!(ended, ["second", "5"], "a session counts from the end of its last request");
    }
}
