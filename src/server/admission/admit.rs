//! Where every call comes by: it is counted and timed here, and refused if its caller has had its share.
//!
//! Whose token is not known is refused here too ([`admit`]), and what it tries is booked to the other side of its connection.
//!
//! A refusal costs no more than its answer: nothing of the request is read. Whoever goes on calling above the limit is read
//! more slowly ([`ConnectionContext::read_later`]), so that it is TCP that keeps the calls, not the server. What is let in of its calls goes
//! on together with others of its kind ([`TOGETHER`]).
use super::authorize::admit;
use super::caller::account;
use super::context::{PROBE, ServiceContext};
use super::memory_budget::ConnectionContext;
use crate::clock::Clock;
use crate::coordinator::metrics::Rpc;
use crate::coordinator::quota::{Account, CallerKey};
use crate::core::{Exceeded, Limit};
use crate::server::access::Access;
use crate::server::status;
use crate::trace::CallSpan;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::{Code, Status};

/// A refused call is charged as this part of one that was let in: who is a little above its limit is told so at once, and
/// who is far above it is read from more and more slowly.
const REFUSALS_PER_CALL: u64 = 2;

/// How often the calls of those who are above their limit go on: the disk is written once for many of them then, and the
/// others seldom have to wait for that.
const TOGETHER: Duration = Duration::from_millis(10);

/// Counts the calls of `S`, and refuses those that are too many.
#[derive(Clone)]
pub(crate) struct Admission<S> {
    inner: S,
    shop: Arc<ServiceContext>,
    clock: Arc<dyn Clock>,
    access: Option<Arc<Access>>,
    lets_strangers_in: bool,
}

impl<S> Admission<S> {
    /// In front of `inner`. Without `access`, everybody may come in.
    pub(crate) fn new(inner: S, shop: Arc<ServiceContext>, clock: Arc<dyn Clock>, access: Option<Arc<Access>>) -> Self {
        Admission { inner, shop, clock, access, lets_strangers_in: false }
    }

    /// Lets those in too who have no token. They do not count as having asked for anything.
    pub(crate) fn open_to_strangers(self) -> Self {
        Admission { lets_strangers_in: true, ..self }
    }

    /// Whether the call may come in, and how long it waits until it goes on.
    fn pass(&self, request: &mut http::Request<Body>, now: Duration) -> Result<Option<Duration>, Status> {
        let admitted = admit(self.access.as_deref(), request);
        let wait = self.check(request, now).map_err(|exceeded| self.shop.refuse(exceeded))?;
        match admitted {
            Err(denial) if !self.lets_strangers_in => Err(status::of_denial(&denial)),
            _ => Ok(wait),
        }
    }

    /// Whether it is one too many; else how long it waits until it goes on.
    fn check(&self, request: &http::Request<Body>, now: Duration) -> Result<Option<Duration>, Exceeded> {
        let guest = request.extensions().get::<Arc<ConnectionContext>>();
        if guest.is_some_and(|guest| *guest.account().key() == CallerKey::Itself) {
            return Ok(None);
        }
        let is_probe = request.uri().path() == PROBE;
        if let Some(refused) = guest.and_then(|guest| guest.refused()).filter(|_| !is_probe) {
            return Err(refused.clone());
        }
        let (calls, mut wait) = (self.shop.limits.calls, None);
        if let Some(per_second) = calls.per_caller
            && let Some(account) = account(&self.shop.accounts, request.extensions(), &*self.clock)
        {
            account.calls.take(per_second, now).map_err(|retry_after| {
                slow_down(guest, &account, per_second, now);
                let caller = Some(account.key().name());
                too_often(Limit::CallsPerSecondPerCaller, per_second, caller, retry_after)
            })?;
            wait = (!account.refused.is_idle(now)).then(|| until_next(TOGETHER, now));
        }
        if let Some(per_second) = calls.in_all.filter(|_| !is_probe) {
            let taken = self.shop.accounts.calls.take(per_second, now);
            taken.map_err(|retry_after| too_often(Limit::CallsPerSecond, per_second, None, retry_after))?;
        }
        Ok(wait)
    }
}

fn too_often(limit: Limit, allowed: u64, caller: Option<Box<str>>, retry_after: Duration) -> Exceeded {
    Exceeded { limit, was: allowed, allowed, caller, retry_after }
}

fn slow_down(guest: Option<&Arc<ConnectionContext>>, account: &Account, per_second: u64, now: Duration) {
    let behind = account.refused.charge(REFUSALS_PER_CALL.saturating_mul(per_second), now);
    // Only who calls for nobody but itself is read later: the connection of a proxy brings others too.
    if let (Some(guest), CallerKey::Peer(_) | CallerKey::User(_)) = (guest, account.key()) {
        guest.read_later(behind);
    }
}

/// The time to the next multiple of `step`.
fn until_next(step: Duration, now: Duration) -> Duration {
    let into = now.as_nanos() % step.as_nanos();
    step - Duration::from_nanos(u64::try_from(into).expect("it is less than the step"))
}

impl<S: NamedService> NamedService for Admission<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Admission<S>
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
        self.shop.metrics.calls.begun();
        let span = CallSpan::begin(self.shop.trace_calls, request.headers(), rpc.name());
        let (answer, wait) = match self.pass(&mut request, began) {
            Ok(wait) => (Answer::Coming(self.inner.call(request)), wait),
            Err(status) => (Answer::Refused(Some(status)), None),
        };
        let wait = wait.map(|wait| Box::pin(sleep(wait)));
        Passing { answer, wait, rpc, span, began, clock: self.clock.clone(), counted: false, shop: self.shop.clone() }
    }
}

/// A call that is being answered. Dropped before, it counts as cancelled.
pub(crate) struct Passing<F> {
    answer: Answer<F>,
    /// Nothing of the call is done before.
    wait: Option<Pin<Box<Sleep>>>,
    rpc: Rpc,
    span: CallSpan,
    began: Duration,
    clock: Arc<dyn Clock>,
    shop: Arc<ServiceContext>,
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
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(cx));
            self.wait = None;
        }
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

#[cfg(test)]
mod tests {
    use super::super::memory_budget::MemoryBudget;
    use super::*;
    use crate::clock::Manual;
    use crate::coordinator::quota::LimitPair;
    use crate::coordinator::quota::Limits;
    use crate::core::Timestamp;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use tokio::time::{Instant, timeout};

    /// Counts the calls that go on to it.
    #[derive(Clone, Default)]
    struct Counter(Arc<AtomicUsize>);

    impl Service<http::Request<Body>> for Counter {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>>>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: http::Request<Body>) -> Self::Future {
            let count = self.0.clone();
            Box::pin(async move {
                count.fetch_add(1, Relaxed);
                Ok(http::Response::new(Body::empty()))
            })
        }
    }

    struct Caller(Arc<ConnectionContext>);

    impl Caller {
        fn new(shop: &ServiceContext, user: u32) -> Self {
            Self::of(shop, CallerKey::User(user), None)
        }

        fn of(shop: &ServiceContext, key: CallerKey, refused: Option<Exceeded>) -> Self {
            Caller(Arc::<MemoryBudget>::default().guest(shop.accounts.of(key, Duration::ZERO), refused))
        }

        fn request(&self) -> http::Request<Body> {
            self.request_for("/")
        }

        fn request_for(&self, path: &str) -> http::Request<Body> {
            let mut request = http::Request::new(Body::empty());
            *request.uri_mut() = path.parse().unwrap();
            request.extensions_mut().insert(self.0.clone());
            request
        }
    }

    #[tokio::test(start_paused = true)]
    async fn g7_the_calls_of_who_is_above_its_limit_go_on_together() {
        let limits = Limits { calls: LimitPair { in_all: None, per_caller: Some(10) }, ..Limits::default() };
        let shop = Arc::new(ServiceContext { limits, ..ServiceContext::default() });
        let clock = Arc::new(Manual::new(Timestamp { boot: 0, wall: 0 }, 1));
        clock.advance(Duration::from_millis(1_004));
        let counter = Counter::default();
        let mut gate = Admission::new(counter.clone(), shop.clone(), clock.clone(), None);
        let [hostile, honest] = [1, 2].map(|user| Caller::new(&shop, user));
        let went_on = || counter.0.load(Relaxed);

        // Within its limit nobody waits.
        for _ in 0..10 {
            gate.call(hostile.request()).await.unwrap();
        }
        assert_eq!(went_on(), 10);
        for _ in 0..8 {
            gate.call(hostile.request()).await.unwrap();
        }
        assert_eq!(went_on(), 10, "above it they are refused");

        clock.advance(Duration::from_millis(100));
        let begun = Instant::now();
        let mut let_in = gate.call(hostile.request());
        assert!(timeout(Duration::from_millis(5), &mut let_in).await.is_err());
        gate.call(honest.request()).await.unwrap();
        assert_eq!(went_on(), 11, "the other goes on at once");
        let_in.await.unwrap();
        assert_eq!((went_on(), begun.elapsed()), (12, Duration::from_millis(6)), "at the next multiple of 10 ms");

        // When all that was refused is forgotten, it is a caller like the others.
        clock.advance(Duration::from_secs(1));
        gate.call(hostile.request()).await.unwrap();
        assert_eq!((went_on(), begun.elapsed()), (13, Duration::from_millis(6)));
    }

    /// Else a server would be started anew because others call it too often.
    #[tokio::test]
    async fn g7_who_looks_whether_it_is_alive_is_answered_while_others_are_refused() {
        let calls = LimitPair { in_all: Some(3), per_caller: Some(2) };
        let shop =
            Arc::new(ServiceContext { limits: Limits { calls, ..Limits::default() }, ..ServiceContext::default() });
        let clock = Arc::new(Manual::new(Timestamp { boot: 0, wall: 0 }, 1));
        let mut gate = Admission::new(Counter::default(), shop.clone(), clock, None);
        let mut is_refused = async |caller: &Caller, path: &str| {
            let answer = gate.call(caller.request_for(path)).await.unwrap();
            answer.headers().contains_key(Status::GRPC_STATUS)
        };
        for user in 1..=3 {
            assert!(!is_refused(&Caller::new(&shop, user), "/x/Call").await);
        }
        let prober = Caller::new(&shop, 4);
        assert!(is_refused(&prober, "/x/Call").await, "there are no calls left");
        assert!(!is_refused(&prober, PROBE).await);
        assert!(is_refused(&prober, PROBE).await, "it has had its own share");

        let met = too_often(Limit::Connections, 1, None, Duration::ZERO);
        let told_why = Caller::of(&shop, CallerKey::User(5), Some(met));
        assert!(is_refused(&told_why, "/x/Call").await && !is_refused(&told_why, PROBE).await);

        let itself = Caller::of(&shop, CallerKey::Itself, None);
        for _ in 0..9 {
            assert!(!is_refused(&itself, PROBE).await);
        }
    }
}
