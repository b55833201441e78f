//! Authentication and authorization of calls: before a call is decoded, and again when its thread is known.
//!
//! [`admit`] reads the token and adds the [`Caller`] to the extensions of the request, for the later layers. A call
//! without a valid token does not mark its connection as active ([`ConnectionContext::mark_active`]). [`Rights`] are
//! the permissions of an admitted call. Access to a thread is checked by the thread's id alone, before its state is
//! read: the answer does not reveal whether the thread exists.
use super::caller::Forwarded;
use super::memory_budget::ConnectionContext;
use crate::coordinator::hub::Interest;
use crate::core::scope::Scope;
use crate::core::types::ThreadId;
use crate::server::access::{Access, Caller, Denial, Role};
use crate::server::status;
use std::sync::Arc;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::{Extensions, Status};

/// Authenticates the request, and adds the caller to its extensions.
pub(crate) fn admit(access: Option<&Access>, request: &mut http::Request<Body>) -> Result<(), Denial> {
    if let Some(access) = access {
        let headers = request.headers().get_all(http::header::AUTHORIZATION).iter();
        let caller = access.authenticate(headers.map(http::HeaderValue::as_bytes))?;
        request.extensions_mut().insert(caller);
    }
    if let Some(connection) = request.extensions().get::<Arc<ConnectionContext>>() {
        connection.mark_active();
    }
    Ok(())
}

/// The permissions of a call.
#[derive(Debug)]
pub(crate) struct Rights(Option<Arc<Caller>>);

impl Rights {
    /// The permissions of the call with these extensions, which needs `role`. `is_open`: the server requires no tokens.
    pub(crate) fn of(extensions: &Extensions, is_open: bool, role: Role) -> Result<Self, Status> {
        if is_open {
            return Ok(Rights(None));
        }
        let caller = extensions.get::<Arc<Caller>>().ok_or_else(|| match extensions.get::<Forwarded>() {
            // The other replica requires no tokens yet.
            Some(_) => status::of_denial(&Denial::Missing),
            None => status::unguarded(),
        })?;
        if caller.role() < role {
            return Err(status::forbidden_to_role(caller.role(), role));
        }
        Ok(Rights(Some(caller.clone())))
    }

    pub(crate) fn caller(&self) -> Option<Arc<Caller>> {
        self.0.clone()
    }

    /// The role of the token; `None`: the server requires no tokens.
    pub(crate) fn role(&self) -> Option<Role> {
        self.0.as_ref().map(|caller| caller.role())
    }

    /// Whether they come from an admin's token.
    pub(crate) fn are_of_admin(&self) -> bool {
        self.role() == Some(Role::Admin)
    }

    /// Fails unless the permissions cover this thread.
    pub(crate) fn open(&self, thread: &ThreadId) -> Result<(), Status> {
        match &self.0 {
            Some(caller) if !caller.opens(thread) => Err(status::forbidden_thread(thread)),
            _ => Ok(()),
        }
    }

    /// The permissions of the same call by a new token.
    ///
    /// # Errors
    /// The new token is of another subject, or opens other threads.
    pub(crate) fn renewed(&self, new: Arc<Caller>) -> Result<Self, Status> {
        match &self.0 {
            Some(old) if old.subject() == new.subject() && old.scope() == new.scope() => Ok(Rights(Some(new))),
            _ => Err(status::of_denial(&Denial::Invalid(
                "it has another subject or other threads than the token of the stream: open a new stream",
            ))),
        }
    }

    /// The threads that the permissions cover.
    pub(crate) fn scope(&self) -> &Scope {
        self.0.as_ref().map_or(&Scope::ALL, |caller| caller.scope())
    }

    /// The threads that the call may watch: the requested ones, or without any, all that it may see.
    pub(crate) fn within(&self, interest: Interest) -> Result<Interest, Status> {
        Ok(match (interest, &self.0) {
            (Interest::Threads(threads), _) => {
                threads.iter().try_for_each(|thread| self.open(thread))?;
                Interest::Threads(threads)
            }
            (_, Some(caller)) => Interest::Within(caller.scope().clone()),
            (all, None) => all,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory_budget::MemoryBudget;
    use super::*;
    use crate::clock::System;
    use crate::coordinator::quota::{Accounts, CallerKey};
    use crate::server::access::{AccessConfig, Grant};
    use std::time::Duration;

    #[test]
    fn only_an_admitted_call_makes_its_connection_active() {
        let given = vec![("a-token".to_owned(), Grant::new("s", Role::Watcher, Scope::ALL))];
        let config = AccessConfig { given, ..AccessConfig::default() };
        let access = Access::load(config, Arc::new(System::new())).unwrap();
        for (token, is_in) in [("Bearer a-token", true), ("Bearer another", false)] {
            let account = Accounts::default().of(CallerKey::Unknown, Duration::ZERO);
            let connection = Arc::<MemoryBudget>::default().connection(account, None);
            let request = http::Request::builder().header("authorization", token).extension(connection.clone());
            let mut request = request.body(Body::empty()).unwrap();
            assert_eq!(admit(Some(&access), &mut request).is_ok(), is_in);
            let caller = request.extensions().get::<Arc<Caller>>().map(|caller| caller.subject());
            assert_eq!((caller, connection.is_active()), (is_in.then_some("s"), is_in));
        }
    }

    #[test]
    fn a_call_without_authentication_has_no_rights() {
        let unguarded = Rights::of(&Extensions::new(), false, Role::Watcher).unwrap_err();
        assert_eq!(unguarded.code(), tonic::Code::Internal);
        assert!(Rights::of(&Extensions::new(), true, Role::Admin).is_ok());
        let account = Accounts::default().of(CallerKey::Unknown, Duration::ZERO);
        let mut forwarded = Extensions::new();
        forwarded.insert(Forwarded { account, waited: Duration::ZERO });
        let refused = Rights::of(&forwarded, false, Role::Watcher).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated, "by a replica that requires no tokens");
    }
}
