//! The HTTP sessions. Many clients never delete theirs, so a new one takes the place of one that nobody uses.
//!
//! 1. A session is in use while one of its requests has no complete response, and while it has a command.
//! 2. If there are more than [`MAX_SESSIONS`], the one that has been unused for longest ends. MCP allows a server to
//!    end sessions at any time: the client then gets 404, and starts another.
//! 3. A session belongs to the process that began it: requests of another process are answered as if it did not exist.
//! 4. The end of a session ends its commands at once. The MCP library drops the handler of a deleted session only some
//!    seconds later, although nobody reads the responses of its calls any more.
use super::{peer::Peer, scope::Scope};
use http::HeaderMap;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The header that names a session.
const SESSION_HEADER: &str = "mcp-session-id";
/// The maximum number of sessions: fewer than the server admits, because an ended session still exists for some
/// seconds.
pub(super) const MAX_SESSIONS: usize = 768;

/// The sessions by their ids.
#[derive(Default)]
pub(super) struct HttpSessions(Mutex<HashMap<String, SessionUse>>);

struct SessionUse {
    peer: Peer,
    requests: usize,
    last: Instant,
    /// `None`: it has called no tool.
    owner: Option<SessionOwner>,
}

/// The owner of the commands of a session.
struct SessionOwner {
    /// The id of its scope.
    id: u64,
    /// Cancelled when the session ends.
    closed: CancellationToken,
}

impl SessionUse {
    fn end(self) {
        self.owner.iter().for_each(|owner| owner.closed.cancel());
    }
}

impl HttpSessions {
    /// Adds a new session of `peer`, and returns the one that has ended for it, if there are too many. `has_command`: whether the
    /// owner with this id has a command.
    pub(super) fn add(&self, session: &str, peer: Peer, has_command: impl Fn(u64) -> bool) -> Option<String> {
        let mut sessions = self.sessions();
        let unused =
            |of: &SessionUse| of.requests == 0 && !of.owner.as_ref().is_some_and(|owner| has_command(owner.id));
        let oldest = match sessions.len() < MAX_SESSIONS {
            true => None,
            false => sessions.iter().filter(|(_, of)| unused(of)).min_by_key(|(_, of)| of.last),
        };
        let oldest = oldest.map(|(session, _)| session.clone());
        let ended = oldest.and_then(|session| sessions.remove_entry(&session));
        sessions.insert(session.to_owned(), SessionUse { peer, requests: 0, last: Instant::now(), owner: None });
        drop(sessions);
        ended.map(|(session, of)| {
            of.end();
            session
        })
    }

    /// Whether `peer` has begun this session, or it does not exist.
    pub(super) fn belongs_to(&self, session: &str, peer: Peer) -> bool {
        self.sessions().get(session).is_none_or(|of| of.peer == peer)
    }

    /// Ends a session.
    pub(super) fn end(&self, session: &str) {
        let ended = self.sessions().remove(session);
        ended.into_iter().for_each(SessionUse::end);
    }

    /// From now on, the end of the session closes `scope`. The session has ended when the result is dropped. `None`: it
    /// has ended already.
    pub(super) fn register(self: &Arc<Self>, session: String, scope: &Scope) -> Option<Registered> {
        let owner = SessionOwner { id: scope.id, closed: scope.closed.clone() };
        self.sessions().get_mut(&session)?.owner = Some(owner);
        Some(Registered { sessions: self.clone(), session })
    }

    /// A request of a session, which is in use until the result is dropped.
    pub(super) fn request(self: &Arc<Self>, session: &str) -> SessionRequest {
        self.sessions().get_mut(session).into_iter().for_each(|of| of.requests += 1);
        SessionRequest { sessions: self.clone(), session: session.to_owned() }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, SessionUse>> {
        // Each change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session that a request or a response names.
pub(super) fn session_of(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(SESSION_HEADER)?.to_str().ok()?.to_owned())
}

/// See [`HttpSessions::register`].
pub(super) struct Registered {
    sessions: Arc<HttpSessions>,
    session: String,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.sessions.end(&self.session);
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
        let [command, done] = [(); 2].map(|()| Scope::new(None, &CancellationToken::new()));
        let add = async |session: &str| {
            tokio::time::advance(Duration::from_millis(1)).await;
            sessions.add(session, Peer::Elsewhere, |owner| owner == command.id)
        };
        for session in ["command", "asks", "used", "first", "second"] {
            assert_eq!(add(session).await, None);
        }
        let _registered = [("command", &command), ("first", &done)]
            .map(|(session, scope)| sessions.register(session.to_owned(), scope).unwrap());
        let asks = sessions.request("asks");
        for number in 5..MAX_SESSIONS {
            assert_eq!(add(&number.to_string()).await, None);
        }
        drop(sessions.request("used"));
        assert_eq!(add("new").await.as_deref(), Some("first"));
        assert!(done.closed.is_cancelled() && !command.closed.is_cancelled());
        sessions.end("7");
        assert_eq!(add("newer").await, None);
        drop(asks);
        drop(sessions.request("none"));
        let ended = [add("a").await, add("b").await].map(Option::unwrap);
        assert_eq!(ended, ["second", "5"], "a session counts from the end of its last request");
    }

    #[test]
    fn a_session_ends_with_its_deletion_and_with_its_handler() {
        let sessions = Arc::new(HttpSessions::default());
        let scope = Scope::new(None, &CancellationToken::new());
        sessions.add("expires", Peer::Elsewhere, |_| false);
        drop(sessions.register("expires".to_owned(), &scope).expect("it is there"));
        assert!(sessions.sessions().is_empty(), "it counts no longer");
        let scope = Scope::new(None, &CancellationToken::new());
        sessions.add("deleted", Peer::Elsewhere, |_| false);
        let _registered = sessions.register("deleted".to_owned(), &scope);
        sessions.end("deleted");
        assert!(scope.closed.is_cancelled() && sessions.register("deleted".to_owned(), &scope).is_none());
    }

    #[test]
    fn a_session_belongs_to_the_process_that_began_it() {
        let sessions = HttpSessions::default();
        let owner = Peer::Process { id: 7, start: 100 };
        sessions.add("its", owner, |_| false);
        let others = [Peer::Process { id: 8, start: 100 }, Peer::Process { id: 7, start: 101 }, Peer::Elsewhere];
        assert!(sessions.belongs_to("its", owner));
        assert_eq!(
            others.map(|peer| sessions.belongs_to("its", peer)),
            [false; 3],
            "a reused process id is another process"
        );
        assert!(sessions.belongs_to("none", owner), "the library answers");
    }
}
