//! The first layer of every call: it authenticates, counts and times the call, and refuses it if a limit is reached.
//!
//! A refused call costs no more than its answer: its request is not read. The refusals of a caller far over its rate
//! are delayed ([`Delay`]), so that a flood of calls waits for its own answers. A call without a valid token
//! ([`admit`]) counts against the limits of its peer address.
use super::authorize::admit;
use super::caller::account;
use super::memory_budget::{ConnectionContext, MemoryReservation};
use super::memory_limit::Size;
use super::request_rate::BYTES_PER_CALL;
use super::service_context::{PROBE, ServiceContext};
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
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::{Code, Status};

/// A caller over its rate gets at most this many refusals per admitted call; further ones wait.
const REFUSALS_PER_CALL: u64 = 2;
/// The longest wait of a refusal.
const LONGEST_DELAY: Duration = Duration::from_secs(1);
/// The size of a delayed refusal in the memory of its connection, in bytes: its HTTP/2 stream and its timer.
const DELAY_BYTES: usize = 4 << 10;

/// An extension of a request that no service accepts. The request counts as a call, but not as a call without a token:
/// a web page causes such requests for anyone who opens it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotForUs;

/// Counts the calls to `S`, and refuses those over a limit.
#[derive(Clone)]
pub(crate) struct Admission<S> {
    inner: S,
    context: Arc<ServiceContext>,
    clock: Arc<dyn Clock>,
    access: Option<Arc<Access>>,
    admits_without_token: bool,
}

impl<S> Admission<S> {
    /// Wraps `inner`. Without `access`, no token is required.
    pub(crate) fn new(
        inner: S,
        context: Arc<ServiceContext>,
        clock: Arc<dyn Clock>,
        access: Option<Arc<Access>>,
    ) -> Self {
        Admission { inner, context, clock, access, admits_without_token: false }
    }

    /// Also admits calls without a valid token. Such calls do not make their connection an active one.
    pub(crate) fn admit_without_token(self) -> Self {
        Admission { admits_without_token: true, ..self }
    }

    /// Authenticates the call and checks the limits.
    fn admit(&self, request: &mut http::Request<Body>, now: Duration) -> Result<(), (Status, Option<Delay>)> {
        let is_for_us = request.extensions().get::<NotForUs>().is_none();
        let admitted = if is_for_us { admit(self.access.as_deref(), request) } else { Ok(()) };
        self.check(request, now).map_err(|(exceeded, delay)| (self.context.refuse(exceeded), delay))?;
        match admitted {
            Err(denial) if !self.admits_without_token => Err((status::of_denial(&denial), None)),
            _ if !is_for_us => Err((Status::invalid_argument("the request is not for this server"), None)),
            _ => Ok(()),
        }
    }

    /// Checks the limits of calls per second.
    fn check(&self, request: &http::Request<Body>, now: Duration) -> Result<(), (Exceeded, Option<Delay>)> {
        let connection = request.extensions().get::<Arc<ConnectionContext>>();
        if connection.is_some_and(|connection| *connection.account().key() == CallerKey::Itself) {
            return Ok(());
        }
        let is_probe = request.uri().path() == PROBE;
        if let Some(refused) = connection.and_then(|connection| connection.refused()).filter(|_| !is_probe) {
            return Err((refused.clone(), None));
        }
        let calls = self.context.limits.calls;
        if let Some(per_second) = calls.per_caller
            && let Some(account) = account(&self.context.accounts, request.extensions(), &*self.clock)
        {
            account.calls.take(per_second, now).map_err(|retry_after| {
                let caller = Some(account.key().name());
                let exceeded = too_often(Limit::CallsPerSecondPerCaller, per_second, caller, retry_after);
                (exceeded, Some(Delay::begin(account, connection, per_second)))
            })?;
        }
        if let Some(per_second) = calls.in_all.filter(|_| !is_probe) {
            let taken = self.context.accounts.calls.take(per_second, now);
            taken.map_err(|retry_after| (too_often(Limit::CallsPerSecond, per_second, None, retry_after), None))?;
        }
        Ok(())
    }
}

fn too_often(limit: Limit, allowed: u64, caller: Option<Box<str>>, retry_after: Duration) -> Exceeded {
    Exceeded { limit, was: allowed, allowed, caller, retry_after }
}

/// The delay of a refusal. If `n` refusals of a caller are waiting, the next one waits for `n` times its share of a
/// second.
struct Delay {
    account: Arc<Account>,
    over: Pin<Box<Sleep>>,
    _memory: Option<MemoryReservation>,
}

impl Delay {
    fn begin(account: Arc<Account>, connection: Option<&Arc<ConnectionContext>>, per_second: u64) -> Self {
        let waiting = u32::try_from(account.waiting_refusals.fetch_add(1, Relaxed)).unwrap_or(u32::MAX);
        let per_second = u32::try_from(per_second.saturating_mul(REFUSALS_PER_CALL)).unwrap_or(u32::MAX);
        let time = (Duration::from_secs(1) / per_second.max(1)).saturating_mul(waiting).min(LONGEST_DELAY);
        let memory = connection.map(|connection| connection.hold(DELAY_BYTES));
        Delay { account, over: Box::pin(sleep(time)), _memory: memory }
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        self.account.waiting_refusals.fetch_sub(1, Relaxed);
    }
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
        let is_for_us = request.extensions().get::<NotForUs>().is_none();
        let rpc = if is_for_us { Rpc::of_path(request.uri().path()) } else { Rpc::Other };
        self.context.metrics.calls.begun();
        let span = CallSpan::begin(self.context.trace_calls, request.headers(), rpc.name());
        let (answer, account) = match self.admit(&mut request, began) {
            Ok(()) => {
                let is_limited = self.context.limits.calls.per_caller.is_some();
                let account = is_limited.then(|| account(&self.context.accounts, request.extensions(), &*self.clock));
                (Answer::Coming(self.inner.call(request)), account.flatten())
            }
            Err((status, delay)) => (Answer::Refused(Some(status), delay), None),
        };
        let (clock, context) = (self.clock.clone(), self.context.clone());
        Passing { answer, account, rpc, span, began, clock, counted: false, context }
    }
}

/// A call that is being answered. If it is dropped before, it counts as cancelled.
pub(crate) struct Passing<F> {
    answer: Answer<F>,
    /// Whose rate a large answer counts against.
    account: Option<Arc<Account>>,
    rpc: Rpc,
    span: CallSpan,
    began: Duration,
    clock: Arc<dyn Clock>,
    context: Arc<ServiceContext>,
    counted: bool,
}

enum Answer<F> {
    Coming(F),
    Refused(Option<Status>, Option<Delay>),
}

impl<F> Future for Passing<F>
where
    F: Future<Output = Result<http::Response<Body>, Infallible>> + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let answer = match &mut self.answer {
            Answer::Coming(answer) => ready!(Pin::new(answer).poll(cx))?,
            Answer::Refused(status, delay) => {
                if let Some(delay) = delay {
                    ready!(delay.over.as_mut().poll(cx));
                }
                status.take().expect("it is polled until it is ready").into_http()
            }
        };
        self.counted = true;
        if let Some((account, size)) = self.account.take().zip(answer.extensions().get::<Size>())
            && let Some(per_second) = self.context.limits.calls.per_caller
        {
            account.calls.charge((size.0 / BYTES_PER_CALL) as u64, per_second, self.clock.awake());
        }
        // An error status is in the headers; an answer with a message has succeeded.
        let status = answer.headers().get(Status::GRPC_STATUS);
        let code = status.map_or(Code::Ok, |status| Code::from_bytes(status.as_bytes()));
        self.span.end(code as i32);
        self.context.metrics.calls.took(self.rpc, self.clock.awake().saturating_sub(self.began));
        if !self.rpc.is_watch() || code != Code::Ok {
            self.context.metrics.calls.ended(self.rpc, code as i32);
        }
        Poll::Ready(Ok(answer))
    }
}

impl<F> Drop for Passing<F> {
    fn drop(&mut self) {
        if !self.counted {
            self.span.end(Code::Cancelled as i32);
            self.context.metrics.calls.ended(self.rpc, Code::Cancelled as i32);
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
    use std::sync::atomic::AtomicUsize;
    use tokio::time::Instant;

    /// Counts the calls that it receives.
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
        fn new(context: &ServiceContext, user: u32) -> Self {
            Self::of(context, CallerKey::User(user), None)
        }

        fn of(context: &ServiceContext, key: CallerKey, refused: Option<Exceeded>) -> Self {
            Caller(Arc::<MemoryBudget>::default().connection(context.accounts.of(key, Duration::ZERO), refused))
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
    async fn g7_calls_over_the_rate_of_their_caller_are_refused_and_other_callers_are_not() {
        let limits = Limits { calls: LimitPair { in_all: None, per_caller: Some(10) }, ..Limits::default() };
        let context = Arc::new(ServiceContext { limits, ..ServiceContext::default() });
        let clock = Arc::new(Manual::new(Timestamp { boot: 0, wall: 0 }, 1));
        clock.advance(Duration::from_secs(1));
        let counter = Counter::default();
        let mut admission = Admission::new(counter.clone(), context.clone(), clock.clone(), None);
        let [hostile, honest] = [1, 2].map(|user| Caller::new(&context, user));
        let admitted = || counter.0.load(Relaxed);

        for _ in 0..18 {
            admission.call(hostile.request()).await.unwrap();
        }
        assert_eq!(admitted(), 10);
        let began = Instant::now();
        let refused: Vec<_> = (0..21).map(|_| admission.call(hostile.request())).collect();
        for (n, refused) in refused.into_iter().enumerate() {
            refused.await.unwrap();
            // Two refusals for each of 10 calls a second, so one in 50 ms, and none later than a second.
            assert_eq!(began.elapsed().as_millis(), 50 * n as u128);
        }
        admission.call(hostile.request()).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 1, "nothing waits any more, so this refusal does not");
        admission.call(honest.request()).await.unwrap();
        assert_eq!(admitted(), 11);

        clock.advance(Duration::from_millis(100));
        for _ in 0..2 {
            admission.call(hostile.request()).await.unwrap();
        }
        assert_eq!(admitted(), 12, "refused calls do not count against the rate");
    }

    #[tokio::test(start_paused = true)]
    async fn g7_a_large_answer_counts_as_several_calls_of_its_caller() {
        let limits = Limits { calls: LimitPair { in_all: None, per_caller: Some(10) }, ..Limits::default() };
        let context = Arc::new(ServiceContext { limits, ..ServiceContext::default() });
        let clock = Arc::new(Manual::new(Timestamp { boot: 0, wall: 0 }, 1));
        clock.advance(Duration::from_secs(1));
        let large = tower::service_fn(|_: http::Request<Body>| {
            let answer = http::Response::builder().extension(Size(4 * BYTES_PER_CALL + 1)).body(Body::empty());
            std::future::ready(Ok::<_, Infallible>(answer.unwrap()))
        });
        let mut admission = Admission::new(large, context.clone(), clock, None);
        let [greedy, other] = [1, 2].map(|user| Caller::new(&context, user));
        let mut refused = Vec::new();
        for caller in [&greedy, &greedy, &greedy, &other] {
            let answer = admission.call(caller.request()).await.unwrap();
            refused.push(answer.headers().contains_key(Status::GRPC_STATUS));
        }
        assert_eq!(refused, [false, false, true, false], "each counts as five of ten");
    }

    #[tokio::test(start_paused = true)]
    async fn g7_the_connection_with_the_most_delayed_refusals_is_closed_when_they_hold_too_much_memory() {
        let limits = Limits { calls: LimitPair { in_all: None, per_caller: Some(1) }, ..Limits::default() };
        let context = Arc::new(ServiceContext { limits, ..ServiceContext::default() });
        let clock = Arc::new(Manual::new(Timestamp { boot: 0, wall: 0 }, 1));
        let mut admission = Admission::new(Counter::default(), context.clone(), clock, None);
        let hostile = Caller::new(&context, 1);
        let mut waiting = Vec::new();
        while !hostile.0.closing().is_cancelled() {
            waiting.push(admission.call(hostile.request()));
            assert!(waiting.len() <= 40_000, "the memory of delayed refusals is bounded");
        }
        assert!(waiting.len() > 10_000, "ten connections with all their calls");
    }

    /// Otherwise a server under a flood would be restarted by its probes.
    #[tokio::test]
    async fn g7_liveness_probes_are_answered_while_other_calls_are_refused() {
        let calls = LimitPair { in_all: Some(3), per_caller: Some(2) };
        let context =
            Arc::new(ServiceContext { limits: Limits { calls, ..Limits::default() }, ..ServiceContext::default() });
        let clock = Arc::new(Manual::new(Timestamp { boot: 0, wall: 0 }, 1));
        let mut admission = Admission::new(Counter::default(), context.clone(), clock, None);
        let mut is_refused = async |caller: &Caller, path: &str| {
            let answer = admission.call(caller.request_for(path)).await.unwrap();
            answer.headers().contains_key(Status::GRPC_STATUS)
        };
        for user in 1..=3 {
            assert!(!is_refused(&Caller::new(&context, user), "/x/Call").await);
        }
        let prober = Caller::new(&context, 4);
        assert!(is_refused(&prober, "/x/Call").await, "there are no calls left");
        assert!(!is_refused(&prober, PROBE).await);
        assert!(is_refused(&prober, PROBE).await, "it has had its own share");

        let met = too_often(Limit::Connections, 1, None, Duration::ZERO);
        let told_why = Caller::of(&context, CallerKey::User(5), Some(met));
        assert!(is_refused(&told_why, "/x/Call").await && !is_refused(&told_why, PROBE).await);

        let itself = Caller::of(&context, CallerKey::Itself, None);
        for _ in 0..9 {
            assert!(!is_refused(&itself, PROBE).await);
        }
    }
}
