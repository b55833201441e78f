//! The caller that a token stands for, and why there is none.
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

    /// The threads with which it may do so.
    pub fn scope(&self) -> &Scope {
        self.grant.scope()
    }

    /// Whether its token opens this thread.
    pub fn opens(&self, thread: &ThreadId) -> bool {
        self.scope().contains(thread)
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.grant.fmt(f)
    }
}

/// Why a caller is not who it has to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// Send one.
    #[error("the call has no token: send one as `authorization: Bearer TOKEN` (--token, PAUSEWATCH_TOKEN)")]
    Missing,
    /// Get one that the server takes.
    #[error("the token is not accepted: {0}")]
    Invalid(&'static str),
    /// Get a new one.
    #[error("the token has expired: get a new one")]
    Expired,
}

/// How the caller was authenticated.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Origin {
    Static(Digest),
    /// The key that has signed it.
    Jwt(Arc<Key>),
    /// Another replica has checked it.
    #[cfg(feature = "etcd")]
    Forwarded,
}
