//! `WatchPauseState` and `Watch`: a body that is polled for as long as the client listens.
//!
//! The body holds only its subscription and, in `Watch`, the request that is being answered. It is polled only when the
//! connection can take more, so a client that does not read costs only the memory of its watched threads.
mod changing;
mod confirmed;
mod fixed;
mod requests;
mod stream;

pub(crate) use confirmed::Confirmed;
#[cfg(feature = "etcd")]
pub(crate) use confirmed::Confirming;
pub(crate) use fixed::MAX_REQUEST as MAX_WATCH_REQUEST;

use super::frame::BatchSize;
use super::wire;
use crate::clock::Clock;
use crate::coordinator::hub::Hub;
use crate::coordinator::metrics::Rpc;
use crate::coordinator::quota::{Account, Weight};
use crate::proto::v1;
use crate::server::access::{Access, Role};
use crate::server::admission::{ConnectionContext, Counts, RequestRate, Rights, ServiceContext, account};
use crate::server::status;
use changing::Changing;
use fixed::Fixed;
use prost::Message;
use requests::Requests;
use std::convert::Infallible;
use std::sync::Arc;
use stream::{Ends, Stream, end_of, hold_ids};
use tonic::body::Body;
use tonic::codegen::http;
use tonic::{Code, Status};

/// Serves watches.
#[derive(Clone)]
pub(crate) struct Watches {
    hub: Arc<Hub>,
    clock: Arc<dyn Clock>,
    context: Arc<ServiceContext>,
    access: Option<Arc<Access>>,
    confirmed: Option<Arc<Confirmed>>,
}

impl Watches {
    pub(crate) fn new(
        hub: Arc<Hub>,
        clock: Arc<dyn Clock>,
        context: Arc<ServiceContext>,
        access: Option<Arc<Access>>,
    ) -> Self {
        Watches { hub, clock, context, access, confirmed: None }
    }

    /// The watches of a replica that may not know the latest state.
    #[cfg(feature = "etcd")]
    pub(crate) fn confirmed_by(self, confirmed: Confirmed) -> Self {
        Watches { confirmed: Some(Arc::new(confirmed)), ..self }
    }

    /// Serves a call of one of the watches; `None`: it is another call.
    #[cfg(feature = "etcd")]
    pub(crate) fn serve(&self, request: &http::Request<Body>) -> Option<WatchService> {
        match request.uri().path().strip_prefix("/pausewatch.v1.ElicitationService/") {
            Some("WatchPauseState") => Some(WatchService { watches: self.clone(), is_fixed: true }),
            Some("Watch") => Some(WatchService { watches: self.clone(), is_fixed: false }),
            _ => None,
        }
    }

    /// Serves `WatchPauseState`.
    pub(super) async fn serve_fixed(self, request: http::Request<Body>) -> Result<http::Response<Body>, Infallible> {
        Ok(self.open_fixed(request).await.map_or_else(Status::into_http, response))
    }

    /// Serves `Watch`.
    pub(super) async fn serve_changing(self, request: http::Request<Body>) -> Result<http::Response<Body>, Infallible> {
        Ok(self.open_changing(request).map_or_else(Status::into_http, response))
    }

    async fn open_fixed(self, request: http::Request<Body>) -> Result<Opened, Status> {
        let caller = self.caller(&request)?;
        let request = fixed::read(request).await?;
        RequestRate::new(caller.account.clone(), &self.context, &self.clock).count(request.encoded_len());
        let interest = wire::watch(&request).map_err(status::of_field)?;
        let interest = caller.rights.within(interest)?;
        let v1::WatchPauseStateRequest { thread_ids, include_elicitations, observer } = request;
        if let Some(confirmed) = &self.confirmed {
            // `interest` has them too, and takes as much memory.
            let _held = hold_ids(caller.connection.as_ref(), thread_ids.iter());
            drop(thread_ids);
            (confirmed.confirm)().await?;
        }
        let stream = self.stream(Rpc::WatchPauseState, &caller, interest.named())?;
        let subscription = Some(if observer { self.hub.observe(interest) } else { self.hub.watch(interest) });
        let body = Body::new(Fixed(Stream { subscription, include_elicitations, ..stream }));
        Ok(Opened { body, role: caller.rights.role() })
    }

    fn open_changing(self, request: http::Request<Body>) -> Result<Opened, Status> {
        let caller = self.caller(&request)?;
        let requests = Requests::new(request, caller.connection.clone());
        let rate = RequestRate::new(caller.account.clone(), &self.context, &self.clock);
        let stream = self.stream(Rpc::Watch, &caller, 0)?;
        let subscription = Some(self.hub.watch_none());
        let stream = Stream { subscription, ..stream };
        let role = caller.rights.role();
        Ok(Opened { body: Body::new(Changing::new(stream, (requests, rate), caller.rights, self.access)), role })
    }

    fn caller(&self, request: &http::Request<Body>) -> Result<CallerOfWatch, Status> {
        let extensions = request.extensions();
        Ok(CallerOfWatch {
            connection: extensions.get::<Arc<ConnectionContext>>().cloned(),
            account: account(&self.context.accounts, extensions, &*self.clock),
            rights: Rights::of(extensions, self.access.is_none(), Role::Watcher)?,
        })
    }

    /// A stream without a subscription. It counts as a watch of `named` threads.
    fn stream(&self, rpc: Rpc, caller: &CallerOfWatch, named: usize) -> Result<Stream, Status> {
        let CallerOfWatch { connection, account, rights } = caller;
        let permit = self.context.accounts.stream(account.clone(), &self.context.limits, Weight::watch(named));
        let permit = permit.map_err(|exceeded| self.context.refuse(exceeded))?;
        Ok(Stream {
            subscription: None,
            include_elicitations: false,
            batch_size: BatchSize::FIRST,
            clock: self.clock.clone(),
            confirmed: self.confirmed.clone(),
            connection: connection.clone(),
            end: end_of(self.access.as_ref(), rights),
            ends: Ends { context: self.context.clone(), rpc, code: Code::Cancelled },
            permit,
        })
    }
}

/// Serves one watch.
#[cfg(feature = "etcd")]
pub(crate) struct WatchService {
    watches: Watches,
    is_fixed: bool,
}

#[cfg(feature = "etcd")]
impl WatchService {
    pub(crate) async fn serve(self, request: http::Request<Body>) -> Result<http::Response<Body>, Infallible> {
        match self.is_fixed {
            true => self.watches.serve_fixed(request).await,
            false => self.watches.serve_changing(request).await,
        }
    }
}

/// The caller of a watch, as the request says.
struct CallerOfWatch {
    connection: Option<Arc<ConnectionContext>>,
    account: Option<Arc<Account>>,
    rights: Rights,
}

/// A watch that has begun.
struct Opened {
    body: Body,
    /// What the token of the caller may; `None`: the server requires no tokens.
    role: Option<Role>,
}

/// The header of a watch that names the role of the caller's token: a program that shows pauses offers only what the role may.
const ROLE: http::HeaderName = http::HeaderName::from_static("pausewatch-role");

fn response(Opened { body, role }: Opened) -> http::Response<Body> {
    let mut response = http::Response::new(body);
    if let Some(role) = role {
        response.headers_mut().insert(ROLE, http::HeaderValue::from_static(role.name()));
    }
    response.extensions_mut().insert(Counts);
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/grpc"));
    response
}

#[cfg(all(test, feature = "etcd"))]
mod tests {
    use super::*;
    use crate::clock::System;
    use crate::coordinator::quota::{Accounts, CallerKey};
    use crate::core::types::MAX_CHANGED;
    use crate::server::admission::MemoryBudget;
    use bytes::Bytes;
    use http_body::Body as _;
    use http_body_util::Full;
    use prost::Message;
    use std::future::pending;
    use std::pin::Pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    /// More than the memory budget holds.
    const CALLS: usize = 600;

    /// A request of 256 kB.
    fn request(message: &impl Message, connection: &Arc<ConnectionContext>) -> http::Request<Body> {
        let message = message.encode_to_vec();
        let length = u32::try_from(message.len()).expect("it is short").to_be_bytes();
        let body = Body::new(Full::new(Bytes::from([&[0], &length[..], &message].concat())));
        http::Request::builder().extension(connection.clone()).body(body).expect("it is valid")
    }

    /// The watches of a replica that never confirms, a connection, and names for its requests.
    fn unconfirmed() -> (Watches, Arc<ConnectionContext>, Vec<String>) {
        let confirmed = Confirmed { confirm: Box::new(|| Box::pin(pending())), heartbeat: Duration::from_secs(1) };
        let watches = Watches::new(Arc::default(), Arc::new(System::new()), Arc::default(), None);
        let account = Accounts::default().of(CallerKey::Unknown, Duration::ZERO);
        let connection = Arc::<MemoryBudget>::default().connection(account, None);
        (watches.confirmed_by(confirmed), connection, (0..MAX_CHANGED).map(|i| format!("{i:0>256}")).collect())
    }

    /// G7: the requests take as much memory as those that are incomplete.
    #[tokio::test]
    async fn g7_a_request_counts_as_memory_while_a_replica_confirms_its_state() {
        let (watches, connection, thread_ids) = unconfirmed();
        let wanted = v1::WatchPauseStateRequest { thread_ids, ..Default::default() };
        let cx = &mut Context::from_waker(Waker::noop());
        let mut calls = Vec::new();
        for _ in 0..CALLS {
            let mut call = Box::pin(watches.clone().serve_fixed(request(&wanted, &connection)));
            assert!(call.as_mut().poll(cx).is_pending(), "it waits");
            calls.push(call);
        }
        assert!(connection.closing().is_cancelled(), "all of them are too many");
    }

    #[tokio::test]
    async fn g7_a_request_of_a_stream_counts_too() {
        let (watches, connection, add) = unconfirmed();
        let wanted = v1::WatchRequest { add, ..Default::default() };
        let cx = &mut Context::from_waker(Waker::noop());
        let mut streams = Vec::new();
        for _ in 0..CALLS {
            let opened = watches.clone().serve_changing(request(&wanted, &connection)).await;
            let mut stream = opened.expect("never fails").into_body();
            assert!(Pin::new(&mut stream).poll_frame(cx).is_pending(), "nothing was received");
            // The task that receives runs.
            tokio::task::yield_now().await;
            assert!(Pin::new(&mut stream).poll_frame(cx).is_pending(), "it waits");
            streams.push(stream);
        }
        assert!(connection.closing().is_cancelled(), "all of them are too many");
    }
}
