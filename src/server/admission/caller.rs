//! Who calls, and what is booked to whom.
use super::memory_budget::ConnectionContext;
use crate::clock::Clock;
use crate::coordinator::quota::{Account, Accounts, CallerKey};
use crate::server::access::Caller;
use std::sync::Arc;
use tonic::codegen::http::Extensions;

/// The name that a token gives to who has made a request.
fn subject(extensions: &Extensions) -> Option<&str> {
    Some(extensions.get::<Arc<Caller>>()?.subject())
}

/// The account of who has made a request: the subject of its token, else the other side of its connection. `None`: nobody
/// knows.
pub(crate) fn account(accounts: &Accounts, extensions: &Extensions, clock: &dyn Clock) -> Option<Arc<Account>> {
    match subject(extensions) {
        Some(subject) => Some(accounts.of(CallerKey::Subject(subject.into()), clock.awake())),
        // The usual case, without a lookup.
        None => extensions.get::<Arc<ConnectionContext>>().map(|guest| guest.account().clone()),
    }
}
