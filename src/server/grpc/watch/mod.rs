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
use crate::server::access::{Access, Role};
use crate::server::admission::{ConnectionContext, Counts, Rights, ServiceContext, account};
use crate::server::status;
use changing::Changing;
use fixed::Fixed;
use requests::Requests;
use std::convert::Infallible;
use std::sync::Arc;
use stream::{Ends, Stream, end_of};
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

    async fn open_fixed(self, request: http::Request<Body>) -> Result<Body, Status> {
        let caller = self.caller(&request)?;
        let request = fixed::read(request).await?;
        let interest = wire::watch(&request).map_err(status::of_field)?;
        let interest = caller.rights.within(interest)?;
        if let Some(confirmed) = &self.confirmed {
            (confirmed.confirm)().await?;
        }
        let stream = self.stream(Rpc::WatchPauseState, &caller, interest.named())?;
        let subscription = Some(if request.observer { self.hub.observe(interest) } else { self.hub.watch(interest) });
        let include_elicitations = request.include_elicitations;
        Ok(Body::new(Fixed(Stream { subscription, include_elicitations, ..stream })))
    }

    fn open_changing(self, request: http::Request<Body>) -> Result<Body, Status> {
        let caller = self.caller(&request)?;
        let requests = Requests::new(request, caller.connection.clone())?;
        let stream = self.stream(Rpc::Watch, &caller, 0)?;
        let subscription = Some(self.hub.watch_none());
        let stream = Stream { subscription, ..stream };
        Ok(Body::new(Changing::new(stream, requests, caller.rights, self.access)))
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

fn response(body: Body) -> http::Response<Body> {
    let mut response = http::Response::new(body);
    response.extensions_mut().insert(Counts);
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/grpc"));
    response
}
