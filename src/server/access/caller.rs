//! The caller that a token identifies, and the reasons why a caller is denied.
use super::grant::{Grant, Role};
use super::keys::Key;
use super::tokens::Digest;
use crate::core::scope::Scope;
use crate::core::types::ThreadId;
use std::fmt;
use std::sync::Arc;

/// The caller of a request, as its token says.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    pub(super) grant: Grant,
    pub(super) origin: Origin,
}

impl Caller {
    /// A caller that another replica has authenticated, for one call.
    #[cfg(feature = "etcd")]
    pub fn forwarded(subject: &str, role: Role, scope: Scope) -> Self {
        Caller { grant: Grant::new(subject, role, scope), origin: Origin::Forwarded }
    }

    /// The name for limits, logs and the audit trail.
    pub fn subject(&self) -> &str {
        self.grant.subject()
    }

    /// The role.
    pub fn role(&self) -> Role {
        self.grant.role()
    }

    /// The threads that it may use.
    pub fn scope(&self) -> &Scope {
        self.grant.scope()
    }

    /// Whether its token covers this thread.
    pub fn opens(&self, thread: &ThreadId) -> bool {
        self.scope().contains(thread)
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.grant.fmt(f)
    }
}

/// Why a caller was not authenticated. The variant says what the caller has to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// Send a token.
    #[error("the call has no token: send one as `authorization: Bearer TOKEN` (--token, PAUSEWATCH_TOKEN)")]
    Missing,
    /// Get a token that the server accepts.
    #[error("the token is not accepted: {0}")]
    Invalid(&'static str),
    /// Get a new token.
    #[error("the token has expired: get a new one")]
    Expired,
}

/// How the caller was authenticated.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Origin {
    Static(Digest),
    /// By a JSON web token that this key has signed.
    Jwt(Arc<Key>),
    /// By another replica.
    #[cfg(feature = "etcd")]
    Forwarded,
}
