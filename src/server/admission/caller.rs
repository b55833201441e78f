//! The account that a call counts against.
use super::memory_budget::ConnectionContext;
use crate::clock::Clock;
use crate::coordinator::quota::{Account, Accounts, CallerKey};
use crate::server::access::Caller;
use std::sync::Arc;
use std::time::Duration;
use tonic::codegen::http::Extensions;

/// The subject of the token of a request.
fn subject(extensions: &Extensions) -> Option<&str> {
    Some(extensions.get::<Arc<Caller>>()?.subject())
}

/// A call that another replica has forwarded. Its request has no connection.
#[cfg_attr(not(feature = "etcd"), allow(dead_code, reason = "only replicas make one"))]
#[derive(Clone, Debug)]
pub(crate) struct Forwarded {
    /// The account of its caller.
    pub(crate) account: Arc<Account>,
    /// How long it had waited at the other replica.
    pub(crate) waited: Duration,
}

/// The account of the caller: the subject of its token, else the peer of its connection. `None`: unknown.
pub(crate) fn account(accounts: &Accounts, extensions: &Extensions, clock: &dyn Clock) -> Option<Arc<Account>> {
    match subject(extensions) {
        Some(subject) => Some(accounts.of(CallerKey::Subject(subject.into()), clock.awake())),
        // The usual case needs no lookup.
        None => match extensions.get::<Arc<ConnectionContext>>() {
            Some(connection) => Some(connection.account().clone()),
            None => extensions.get::<Forwarded>().map(|call| call.account.clone()),
        },
    }
}
