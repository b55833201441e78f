//! Why a call is refused: one variant for each thing that its caller does next.
use super::limit::Exceeded;
use super::types::{InvalidField, MAX_OPEN, ThreadId};

/// Why a call was refused. Nothing was changed, except possibly with [`Refusal::NotLeading`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Correct the field.
    #[error(transparent)]
    InvalidField(#[from] InvalidField),
    /// Use a new request id for another call.
    #[error(
        "request id {request_id:?} was used on thread {thread:?} for a different call: use a new request id for each new call"
    )]
    RequestIdReused {
        /// The thread.
        thread: ThreadId,
        /// The id that was used twice.
        request_id: Box<str>,
    },
    /// Do not decrement more often than was incremented.
    #[error("thread {thread:?} has no open elicitation to close")]
    NoOutstanding {
        /// The thread.
        thread: ThreadId,
    },
    /// Check where the id comes from: it never was on this thread, or its elicitation ended more than 10 minutes ago.
    #[error(
        "thread {thread:?} has no elicitation {elicitation_id:?}: it never was, or it ended more than 10 minutes ago"
    )]
    Unknown {
        /// The thread.
        thread: ThreadId,
        /// The id as the caller gave it.
        elicitation_id: Box<str>,
    },
    /// Somebody has closed it.
    #[error("elicitation {elicitation_id:?} of thread {thread:?} was released {ago_ms} ms ago")]
    Released {
        /// The thread.
        thread: ThreadId,
        /// The id as the caller gave it.
        elicitation_id: Box<str>,
        /// Milliseconds since it was closed.
        ago_ms: u64,
    },
    /// Its lease has ended: it no longer pauses the thread, and commands may have timed out since.
    #[error(
        "elicitation {elicitation_id:?} of thread {thread:?} expired {ago_ms} ms ago: its lease was not renewed in time"
    )]
    Expired {
        /// The thread.
        thread: ThreadId,
        /// The id as the caller gave it.
        elicitation_id: Box<str>,
        /// Milliseconds since it was closed.
        ago_ms: u64,
    },
    /// Its thread was paused for the server's maximum: the pause is over, and commands may have timed out since.
    #[error(
        "elicitation {elicitation_id:?} of thread {thread:?} ended {ago_ms} ms ago: the thread was paused for the server's \
         --max-pause"
    )]
    Capped {
        /// The thread.
        thread: ThreadId,
        /// The id as the caller gave it.
        elicitation_id: Box<str>,
        /// Milliseconds since it was closed.
        ago_ms: u64,
    },
    /// Close some first.
    #[error("thread {thread:?} has {MAX_OPEN} open elicitations, which is the limit")]
    TooMany {
        /// The thread.
        thread: ThreadId,
    },
    /// Call again with the same request id.
    #[error(
        "the server cannot answer now: {why}. Nothing was changed; call again, with the same request id if it has one"
    )]
    StoreUnavailable {
        /// The problem of the store.
        why: &'static str,
    },
    /// Call again with the same request id at the replica that leads. Unlike after other refusals, the change may have been made.
    #[error("{}; call again with the same request id", not_leading(.leader.as_deref()))]
    NotLeading {
        /// The address of the replica that leads, if it is known.
        leader: Option<Box<str>>,
    },
    /// Use less of what is limited, or wait.
    #[error(transparent)]
    LimitExceeded(Exceeded),
}

fn not_leading(leader: Option<&str>) -> String {
    match leader {
        Some(leader) => format!("this replica does not lead its fleet, the one at {leader} does"),
        None => "this replica does not lead its fleet, and it is not known which one does".to_owned(),
    }
}
