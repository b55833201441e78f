//! One unary call: a deadline, and retries within it.
//!
//! 1. The deadline covers connecting, every attempt and every pause between them.
//! 2. Only UNAVAILABLE and the limit of calls per second are retried; with the same request id, the call counts once (G4).
//! 3. With several addresses, an attempt that ends with UNAVAILABLE, or gets no answer in time, is repeated at the next
//!    address at once; the pause comes after all addresses were tried. STORE_UNAVAILABLE and limits do not move to
//!    another address: another replica has the same store.
//! 4. If the deadline passes in an attempt whose predecessor ended with UNAVAILABLE, the error is still UNAVAILABLE,
//!    with the cause of the predecessor.
//! 5. The pauses between attempts are random, so that the clients of a restarted server do not all return at once.
use super::{
    Error,
    route::{Route, Stub},
};
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Request, Response, Status};

/// The resolution of timers.
const TICK: Duration = Duration::from_millis(2);

/// Endless pauses, doubling from `first` to `max`, each plus up to 100 % at random.
pub(super) fn backoff(first: Duration, max: Duration) -> ExponentialBackoff {
    let builder = ExponentialBuilder::new().with_min_delay(first).with_max_delay(max).without_max_times();
    // Without a seed, and without its std feature, backon gives every process the same pauses.
    builder.with_jitter().with_jitter_seed(fastrand::u64(..)).build()
}

/// How long and how often a call is attempted.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryPolicy {
    pub(super) deadline: Duration,
    pub(super) retries: usize,
}

/// Calls `send` with `message` until there is a response or a refusal, or until the policy ends. Trying each address
/// once is one attempt.
pub(super) async fn unary<M, R, F>(
    policy: RetryPolicy,
    route: &Route,
    message: M,
    mut send: impl FnMut(Stub, Request<M>) -> F,
) -> Result<R, Error>
where
    M: Clone,
    F: Future<Output = Result<Response<R>, Status>>,
{
    let start = Instant::now();
    let give_up = deadline_after(start, policy.deadline);
    // At most half of the deadline, so that another replica has the other half.
    let no_answer = route.no_answer().map(|limit| limit.min(policy.deadline / 2));
    let mut pauses = backoff(Duration::from_millis(25), Duration::from_secs(1)).take(policy.retries);
    let mut unanswered = 0_usize;
    let mut last = None;
    loop {
        let position = route.position();
        let mut request = Request::new(message.clone());
        request.set_timeout(give_up.saturating_duration_since(Instant::now()));
        let until = no_answer.map_or(give_up, |limit| give_up.min(Instant::now() + limit));
        let error = match timeout_at(until, send(position.stub, request)).await {
            Ok(Ok(response)) => return Ok(response.into_inner()),
            // The transport and tonic servers end the call at the same time, with CANCELLED.
            Ok(Err(status)) if status.code() == Code::Cancelled && Instant::now() + TICK >= give_up => {
                return Err(Error::deadline_exceeded_after(last, policy.deadline));
            }
            Ok(Err(status)) => Error::from(status),
            Err(_) => match no_answer.filter(|_| until < give_up) {
                Some(limit) => {
                    Error::Unavailable(Box::new(Status::unavailable(format!("no answer within {:?}", whole_ms(limit)))))
                }
                None => return Err(Error::deadline_exceeded_after(last, policy.deadline)),
            },
        };
        let wait = error.rate_limit_delay();
        if wait.is_none() && !matches!(error, Error::Unavailable(_) | Error::StoreUnavailable(_)) {
            return Err(error);
        }
        if matches!(error, Error::Unavailable(_)) && route.move_on(position.moves) {
            unanswered += 1;
            if !unanswered.is_multiple_of(route.len()) && Instant::now() < give_up {
                last = Some(error);
                continue;
            }
        }
        match pauses.next().map(|pause| pause + wait.unwrap_or_default()) {
            // Waiting until the deadline would replace the reason with DEADLINE_EXCEEDED.
            Some(pause) if deadline_after(Instant::now(), pause) < give_up => sleep(pause).await,
            _ => return Err(error),
        }
        last = Some(error);
    }
}

/// `start + duration`, at most 30 years after `start`: longer ones may not fit into an `Instant` or a `grpc-timeout`.
pub(crate) fn deadline_after(start: Instant, duration: Duration) -> Instant {
    start + duration.min(Duration::from_secs(86_400 * 365 * 30))
}

/// A duration in whole milliseconds, for messages.
pub(super) fn whole_ms(duration: Duration) -> Duration {
    Duration::new(duration.as_secs(), duration.subsec_millis() * 1_000_000)
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;
    use crate::client::{Address, Config, vectors};
    use prost::Message;

    #[tokio::test]
    async fn a_call_may_have_any_deadline() {
        let channel = crate::client::connect::channel(&Address::default(), &Config::default()).unwrap();
        for deadline in [Duration::MAX, Duration::from_millis(u64::MAX), Duration::from_secs(400_000_000_000)] {
            let policy = RetryPolicy { deadline, retries: 0 };
            let answer = |_, _: Request<()>| async { Ok(Response::new(())) };
            unary(policy, &Route::over(channel.clone()), (), answer).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_are_repeated_as_in_all_libraries() {
        for case in vectors::cases("retries.json") {
            let keys = ["name", "code", "reason", "limit", "retry_after_ms", "repeated", "pauses_ms"];
            vectors::check_keys(&case, &keys);
            let text = |key: &str| case.get(key).map(|value| value.as_str().unwrap());
            let retry_after = vectors::duration(&case, "retry_after_ms");
            let status = vectors::status(text("code").unwrap(), text("reason"), text("limit"), retry_after);
            let pauses = case.get("pauses_ms").map_or(&[][..], |pauses| pauses.as_array().unwrap());
            let is_repeated = case["repeated"].as_bool().unwrap();
            assert_eq!(is_repeated, !pauses.is_empty(), "{case}");
            let policy = RetryPolicy { deadline: Duration::from_secs(86_400), retries: usize::MAX };
            let mut attempts = Vec::new();
            let channel = crate::client::connect::channel(&Address::default(), &Config::default()).unwrap();
            let route = Route::over(channel);
            let result = unary(policy, &route, (), |_, _: Request<()>| {
                attempts.push(Instant::now());
                let is_last = attempts.len() > pauses.len().max(1);
                let answer = if is_last { Ok(Response::new(())) } else { Err(status.clone()) };
                async move { answer }
            });
            assert_eq!(result.await.is_ok(), is_repeated, "{case}");
            assert_eq!(attempts.len(), pauses.len() + 1, "{case}");
            for (pause, between) in pauses.iter().zip(attempts.windows(2)) {
                let bound = |i: usize| u128::try_from(pause[i].as_i64().unwrap()).unwrap();
                let actual = (between[1] - between[0]).as_millis();
                // Timers have a resolution of 1 ms.
                assert!(actual >= bound(0) && actual <= bound(1) + 1, "{case}: {actual} ms, not {pause}");
            }
        }
    }

    /// Such as from a proxy: the server sends at most some seconds.
    #[tokio::test(start_paused = true)]
    async fn a_retry_delay_beyond_every_clock_ends_the_call_with_its_reason() {
        let limited = vectors::status("RESOURCE_EXHAUSTED", Some("LIMIT_EXCEEDED"), Some("calls-per-second"), None);
        let mut details = tonic_types::pb::Status::decode(limited.details()).unwrap();
        let delay = Some(prost_types::Duration { seconds: i64::MAX, nanos: 0 });
        details.details.push(prost_types::Any {
            type_url: "type.googleapis.com/google.rpc.RetryInfo".into(),
            value: tonic_types::pb::RetryInfo { retry_delay: delay }.encode_to_vec(),
        });
        let status = Status::with_details(Code::ResourceExhausted, "in words", details.encode_to_vec().into());
        assert!(
            Error::from(status.clone()).rate_limit_delay().is_some_and(|delay| delay > Duration::from_secs(1 << 60))
        );
        let answer = |_, _: Request<()>| std::future::ready(Err::<Response<()>, _>(status.clone()));
        let error = unary(POLICY, &several(1), (), answer).await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    }

    fn several(count: usize) -> Route {
        let addresses: Vec<_> = (1..=count).map(|port| format!("127.0.0.1:{port}")).collect();
        let address = addresses.join(",").parse().expect("a list of addresses");
        Route::new(&Config { address, ..Config::default() }).expect("plain text needs no certificates")
    }

    const POLICY: RetryPolicy = RetryPolicy { deadline: Duration::from_secs(5), retries: usize::MAX };

    #[tokio::test(start_paused = true)]
    async fn the_next_address_is_asked_at_once_and_a_lap_has_a_pause() {
        let (route, mut attempts) = (several(3), Vec::new());
        let result = unary(POLICY, &route, (), |_, _: Request<()>| {
            attempts.push(Instant::now());
            let answer = if attempts.len() > 7 { Ok(Response::new(())) } else { Err(Status::unavailable("away")) };
            async move { answer }
        });
        result.await.unwrap();
        let pauses: Vec<_> = attempts.windows(2).map(|between| between[1] - between[0]).collect();
        assert!([0, 1, 3, 4, 6].iter().all(|&at| pauses[at] == Duration::ZERO), "{pauses:?}");
        assert!(pauses[2] >= Duration::from_millis(25) && pauses[5] >= Duration::from_millis(50), "{pauses:?}");
        assert_eq!(route.position().moves, 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_without_an_answer_is_left_after_its_time() {
        for (deadline, limit) in [(5_000, 1_500), (1_000, 500)] {
            let (route, mut attempts) = (several(2), 0);
            let policy = RetryPolicy { deadline: Duration::from_millis(deadline), ..POLICY };
            let began = Instant::now();
            let result = unary(policy, &route, (), |_, _: Request<()>| {
                attempts += 1;
                let hangs = attempts == 1;
                async move { if hangs { std::future::pending().await } else { Ok(Response::new(())) } }
            });
            result.await.unwrap();
            let took = began.elapsed().as_millis();
            assert!((limit..=limit + 2).contains(&took), "{took} ms, not {limit}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_retries_every_address_is_asked_once() {
        let (route, mut attempts) = (several(3), 0);
        let result: Result<(), _> = unary(RetryPolicy { retries: 0, ..POLICY }, &route, (), |_, _: Request<()>| {
            attempts += 1;
            async { Err(Status::unavailable("away")) }
        })
        .await;
        assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
        assert_eq!(attempts, 3);
    }

    /// The error of a call whose first attempt ends with `first`, and whose second one has no answer until the deadline.
    async fn unanswered_after(first: Status) -> Error {
        let channel = crate::client::connect::channel(&Address::default(), &Config::default()).expect("a channel");
        let (route, mut first) = (Route::over(channel), Some(first));
        let result: Result<(), _> = unary(POLICY, &route, (), |_, _: Request<()>| {
            let answer = first.take();
            async move {
                match answer {
                    Some(status) => Err(status),
                    None => std::future::pending().await,
                }
            }
        })
        .await;
        result.expect_err("nobody answers")
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_without_an_answer_until_the_deadline_says_that_nobody_was_there() {
        let mut nobody = Status::unavailable("tcp connect error");
        nobody.set_source(std::sync::Arc::new(std::io::Error::other("connection refused")));
        let error = unanswered_after(nobody).await;
        assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
        assert_eq!(error.to_string(), "tcp connect error; no answer within 5s");
        assert_eq!(error.at(&"host:1").to_string(), "host:1: connection refused; no answer within 5s");

        let draining = unanswered_after(Status::unavailable("draining")).await;
        assert!(matches!(draining, Error::Unavailable(_)), "{draining:?}");
        assert_eq!(draining.at(&"host:1").to_string(), "draining; no answer within 5s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_after_another_error_says_the_deadline() {
        let away = vectors::status("UNAVAILABLE", Some("STORE_UNAVAILABLE"), None, None);
        let error = unanswered_after(away).await;
        assert!(matches!(error, Error::DeadlineExceeded(_)), "{error:?}");
        assert_eq!(error.to_string(), "no answer within 5s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_away_is_waited_for_at_the_same_address() {
        let (route, mut attempts) = (several(3), 0);
        let away = vectors::status("UNAVAILABLE", Some("STORE_UNAVAILABLE"), None, None);
        let result = unary(POLICY, &route, (), |_, _: Request<()>| {
            attempts += 1;
            let answer = if attempts > 3 { Ok(Response::new(())) } else { Err(away.clone()) };
            async move { answer }
        });
        result.await.unwrap();
        assert_eq!(route.position().moves, 0);
    }
}
