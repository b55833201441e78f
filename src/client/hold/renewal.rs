//! The background task of a hold: renews its lease and reports what is known of it.
use super::{
    last_end::LastEnd,
    lease::{Lease, set_lease},
    risk::Risk,
};
use crate::client::{Error, RenewElicitationResponse, retry};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

/// The first delay before a failed renewal is repeated, unless a thirtieth of the ttl is shorter.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(100);
/// The longest delay, unless a sixth of the ttl is shorter. Up to 100 % is added to each delay at random.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);
/// The delay before a renewal that shows whether the one before was cut, unless a third of the ttl is shorter.
const CONFIRMATION_DELAY: Duration = Duration::from_secs(1);

pub(super) struct Renewal {
    pub(super) ttl: Duration,
    pub(super) lease: Arc<watch::Sender<Lease>>,
    pub(super) last_end: LastEnd,
    pub(super) risk: Risk,
}

impl Renewal {
    /// Renews until the server reports that the elicitation is closed. `opened`: when the increment was sent. `renew` sends one
    /// renewal.
    pub(super) async fn run<F>(mut self, opened: Instant, renew: impl Fn() -> F)
    where
        F: Future<Output = Result<RenewElicitationResponse, Error>>,
    {
        // The server's ttl began before its response arrived, so the lease has expired by this time.
        let mut expires = retry::deadline_after(Instant::now(), self.ttl);
        let mut next = retry::deadline_after(opened, self.ttl / 3);
        // At most twice the longest delay, so that after an outage the lease is renewed before the server ends it: the
        // server restarts it with its full ttl.
        let max_delay = MAX_RETRY_DELAY.min(self.ttl / 6);
        let delays = || retry::backoff((self.ttl / 30).min(FIRST_RETRY_DELAY), max_delay);
        let mut retry_delays = delays();
        let mut last_error = None;
        loop {
            let attempt = async {
                sleep_until(next).await;
                (Instant::now(), renew().await)
            };
            let (sent, answer) = tokio::select! {
                answer = attempt => answer,
                never = self.set_overdue(next, expires, last_error.as_ref()) => match never {},
            };
            match answer {
                Ok(answer) => {
                    let is_unclear = self.last_end.learn(sent, answer.elicitation.as_ref(), self.ttl);
                    expires = retry::deadline_after(Instant::now(), self.ttl);
                    let delay = if is_unclear { CONFIRMATION_DELAY.min(self.ttl / 3) } else { self.ttl / 3 };
                    next = retry::deadline_after(sent, delay);
                    retry_delays = delays();
                    last_error = None;
                    set_lease(&self.lease, Lease::Held);
                    self.risk.clear();
                    continue;
                }
                Err(Error::ElicitationExpired(_)) => return set_lease(&self.lease, Lease::Expired),
                Err(Error::ElicitationReleased(_)) => return set_lease(&self.lease, Lease::Released),
                Err(Error::ElicitationUnknown(_)) => return set_lease(&self.lease, Lease::Unknown),
                Err(error) => {
                    tracing::debug!(%error, "a renewal failed; retrying");
                    last_error = Some(error);
                }
            }
            next = Instant::now() + retry_delays.next().unwrap_or_default();
        }
    }

    /// Reports the risk before `deadline`, sets `Overdue` at `deadline`, and then waits forever. `next`: when the next
    /// renewal is sent.
    async fn set_overdue(&self, next: Instant, deadline: Instant, error: Option<&Error>) -> Infallible {
        let at_risk = deadline.checked_sub(self.ttl / 3).unwrap_or(deadline);
        let due = next.min(at_risk).max(Instant::now());
        sleep_until(due).await;
        // This process was stopped (Ctrl-Z). The answer to the pending renewal shows the state of the lease.
        if Instant::now().saturating_duration_since(due) > self.ttl / 3 {
            sleep(self.ttl / 3).await;
        }
        self.risk.report(deadline, self.ttl, error).await;
        sleep_until(deadline).await;
        set_lease(&self.lease, Lease::Overdue);
        std::future::pending().await
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;
    use crate::client::{Elicitation, vectors};
    use std::{collections::VecDeque, sync::Mutex};
    use tokio::sync::oneshot;

    type Answer = Result<RenewElicitationResponse, Error>;

    fn name(lease: Lease) -> &'static str {
        match lease {
            Lease::Held => "held",
            Lease::Overdue => "overdue",
            Lease::Expired => "expired",
            Lease::Released => "released",
            Lease::Unknown => "unknown",
        }
    }

    fn answer(text: &str) -> Answer {
        match text {
            "ok" => Ok(RenewElicitationResponse::default()),
            reason if reason.starts_with("ELICITATION_") => {
                Err(Error::from(vectors::status("NOT_FOUND", Some(reason), None, None)))
            }
            code => Err(Error::from(vectors::status(code, None, None, None))),
        }
    }

    /// Lets the task run: the clock, which is paused, stands still.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    /// As by Ctrl-Z: nobody failed to answer.
    #[tokio::test(start_paused = true)]
    async fn a_process_that_was_stopped_learns_from_the_answer_what_became_of_its_lease() {
        const TTL: Duration = Duration::from_secs(30);
        let opened = Instant::now();
        for (is_answered, expected) in [(true, Lease::Expired), (false, Lease::Overdue)] {
            let (lease, risk) = (Arc::new(watch::Sender::new(Lease::Held)), Risk::default());
            let last_end = LastEnd::new(opened, &Elicitation::default(), TTL);
            let renewal = Renewal { ttl: TTL, lease: lease.clone(), last_end, risk: risk.clone() };
            let renew = move || async move {
                sleep(Duration::from_secs(1)).await;
                answer(if is_answered { "ELICITATION_EXPIRED" } else { "UNAVAILABLE" })
            };
            let renewing = tokio::spawn(renewal.run(Instant::now(), renew));
            settle().await;
            tokio::time::advance(2 * TTL).await;
            settle().await;
            assert_eq!((*lease.borrow(), risk.subscribe().borrow().is_some()), (Lease::Held, false));
            let end = *lease.subscribe().wait_for(|lease| *lease != Lease::Held).await.unwrap();
            assert_eq!((end, risk.subscribe().borrow().is_none()), (expected, is_answered));
            renewing.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn g2_a_lease_is_renewed_as_in_all_libraries() {
        for case in vectors::cases("renewal.json") {
            vectors::check_keys(&case, &["name", "ttl_ms", "steps"]);
            let (ttl, opened) = (vectors::duration(&case, "ttl_ms").unwrap(), Instant::now());
            let lease = Arc::new(watch::Sender::new(Lease::Held));
            let last_end = LastEnd::new(opened, &Elicitation::default(), ttl);
            let renewal = Renewal { ttl, lease: lease.clone(), last_end, risk: Risk::default() };
            // The number of renewals, and those that are not answered.
            let sent = Arc::new(Mutex::new((0, VecDeque::<oneshot::Sender<Answer>>::new())));
            let renew = {
                let sent = sent.clone();
                move || {
                    let (answer, answered) = oneshot::channel();
                    let mut sent = sent.lock().unwrap();
                    sent.0 += 1;
                    sent.1.push_back(answer);
                    async move { answered.await.unwrap() }
                }
            };
            let renewing = tokio::spawn(renewal.run(opened, renew));
            for step in case["steps"].as_array().unwrap() {
                vectors::check_keys(step, &["at_ms", "answer", "expect"]);
                settle().await;
                let at = opened + vectors::duration(step, "at_ms").unwrap();
                // A renewal that fails is repeated after a random delay: the clock stops at each timer on the way.
                sleep_until(at).await;
                settle().await;
                if let Some(text) = step.get("answer") {
                    let renewal = sent.lock().unwrap().1.pop_front();
                    let renewal = renewal.unwrap_or_else(|| panic!("{}: {step}: none is sent", case["name"]));
                    renewal.send(answer(text.as_str().unwrap())).unwrap();
                    settle().await;
                }
                let Some(expect) = step.get("expect") else { continue };
                vectors::check_keys(expect, &["sent", "lease"]);
                let known = serde_json::json!({"sent": sent.lock().unwrap().0, "lease": name(*lease.borrow())});
                for (key, expected) in expect.as_object().unwrap() {
                    assert_eq!(&known[key], expected, "{}: {step}", case["name"]);
                }
            }
            renewing.abort();
        }
    }
}
