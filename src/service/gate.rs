//! Where every call comes by: it is counted and timed here, and refused if its caller has had its share.
//!
//! Whose token is not known is refused here too ([`admit`]), and what it tries is booked to the other side of its connection.
//!
//! A refusal costs no more than its answer: nothing of the request is read. Whoever goes on calling above the limit is read
//! more slowly ([`Guest::read_later`]), so that it is TCP that keeps the calls, not the server.
use super::authorize::admit;
use super::caller::account;
use super::room::Guest;
use super::status;
use crate::access::Access;
use crate::clock::Clock;
use crate::core::{Exceeded, Limit};
use crate::limits::{Account, Accounts, CallerKey, Limits};
use crate::metrics::{Metrics, Rpc};
use crate::trace::CallSpan;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::{Code, Status};

/// A refused call is charged as this part of one that was let in: who is a little above its limit is told so at once, and
/// who is far above it is read from more and more slowly.
const REFUSALS_PER_CALL: u64 = 4;

/// What all calls share: where they are counted, and what they may have.
#[derive(Debug, Default)]
pub struct Shop {
    /// Where they are counted.
    pub metrics: Arc<Metrics>,
    /// Who has what.
    pub accounts: Arc<Accounts>,
    /// How much there may be.
    pub limits: Limits,
    /// Whether each has a span.
    pub trace_calls: bool,
}

/// Counts the calls of `S`, and refuses those that are too many.
#[derive(Clone)]
pub struct Gate<S> {
    inner: S,
    shop: Arc<Shop>,
    clock: Arc<dyn Clock>,
    access: Option<Arc<Access>>,
}

impl<S> Gate<S> {
    /// In front of `inner`. Without `access`, everybody may come in.
    pub fn new(inner: S, shop: Arc<Shop>, clock: Arc<dyn Clock>, access: Option<Arc<Access>>) -> Self {
        Gate { inner, shop, clock, access }
    }

    /// Whether the call may come in.
    fn pass(&self, request: &mut http::Request<Body>, now: Duration) -> Result<(), Status> {
        let admitted = admit(self.access.as_deref(), request);
        self.check(request, now).map_err(|exceeded| {
            self.shop.metrics.refuse(exceeded.limit);
            status::of_limit(exceeded)
        })?;
        admitted.map_err(|denial| status::of_denial(&denial))
    }

    /// Whether it is one too many.
    fn check(&self, request: &http::Request<Body>, now: Duration) -> Result<(), Exceeded> {
        let guest = request.extensions().get::<Arc<Guest>>();
        if let Some(refused) = guest.and_then(|guest| guest.refused()) {
            return Err(refused.clone());
        }
        let calls = self.shop.limits.calls;
        if let Some(per_second) = calls.per_caller
            && let Some(account) = account(&self.shop.accounts, request.extensions(), &*self.clock)
        {
            account.calls.take(per_second, now).map_err(|retry_after| {
                slow_down(guest, &account, per_second, now);
                let caller = Some(account.key().name());
                too_often(Limit::CallsPerSecondPerCaller, per_second, caller, retry_after)
            })?;
        }
        if let Some(per_second) = calls.in_all {
            let taken = self.shop.accounts.calls.take(per_second, now);
            taken.map_err(|retry_after| too_often(Limit::CallsPerSecond, per_second, None, retry_after))?;
        }
        Ok(())
    }
}

fn too_often(limit: Limit, allowed: u64, caller: Option<Box<str>>, retry_after: Duration) -> Exceeded {
    Exceeded { limit, was: allowed, allowed, caller, retry_after }
}

/// Only who calls for nobody but itself: the connection of a proxy brings others too.
fn slow_down(guest: Option<&Arc<Guest>>, account: &Account, per_second: u64, now: Duration) {
    if let (Some(guest), CallerKey::Peer(_) | CallerKey::User(_)) = (guest, account.key()) {
        guest.read_later(account.refused.charge(REFUSALS_PER_CALL.saturating_mul(per_second), now));
    }
}

impl<S: NamedService> NamedService for Gate<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Gate<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible, Future: Unpin>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Passing<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let began = self.clock.awake();
        let rpc = Rpc::of_path(request.uri().path());
        let span = CallSpan::begin(self.shop.trace_calls, request.headers(), rpc.name());
        let answer = match self.pass(&mut request, began) {
            Ok(()) => Answer::Coming(self.inner.call(request)),
            Err(status) => Answer::Refused(Some(status)),
        };
        Passing { answer, rpc, span, began, clock: self.clock.clone(), counted: false, shop: self.shop.clone() }
    }
}

/// A call that is being answered. Dropped before, it counts as cancelled.
pub struct Passing<F> {
    answer: Answer<F>,
    rpc: Rpc,
    span: CallSpan,
    began: Duration,
    clock: Arc<dyn Clock>,
    shop: Arc<Shop>,
    counted: bool,
}

enum Answer<F> {
    Coming(F),
    Refused(Option<Status>),
}

impl<F> Future for Passing<F>
where
    F: Future<Output = Result<http::Response<Body>, Infallible>> + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let answer = match &mut self.answer {
            Answer::Coming(answer) => ready!(Pin::new(answer).poll(cx))?,
            Answer::Refused(status) => status.take().expect("it is polled until it is ready").into_http(),
        };
        self.counted = true;
        // An error is told by the headers; what comes with a message ends well.
        let status = answer.headers().get(Status::GRPC_STATUS);
        let code = status.map_or(Code::Ok, |status| Code::from_bytes(status.as_bytes()));
        self.span.end(code as i32);
        self.shop.metrics.calls.took(self.rpc, self.clock.awake().saturating_sub(self.began));
        if self.rpc != Rpc::Watch || code != Code::Ok {
            self.shop.metrics.calls.ended(self.rpc, code as i32);
        }
        Poll::Ready(Ok(answer))
    }
}

impl<F> Drop for Passing<F> {
    fn drop(&mut self) {
        if !self.counted {
            self.span.end(Code::Cancelled as i32);
            self.shop.metrics.calls.ended(self.rpc, Code::Cancelled as i32);
        }
    }
}
