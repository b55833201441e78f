//! The time at which a server with a maximum pause ends an elicitation, however often it is renewed.
//!
//! Such a server cuts the ends of leases, so a lease that is shorter than requested shows that time. All times of the
//! server are compared with the time at which it opened the elicitation, so its clock may differ from ours. A lease also
//! looks shorter after the server's clock was set back. The next renewal distinguishes them: the end of a lease that is cut
//! stays where it is.
use crate::client::Elicitation;
use std::time::Duration;
use tokio::{sync::watch, time::Instant};

/// The server's wall clock may be corrected a little meanwhile.
const TOLERANCE: Duration = Duration::from_millis(100);

/// Between two times of the server, which may have been set in between.
type Nanos = i128;

/// The latest end of the lease, as far as it is known.
#[derive(Debug)]
pub(super) struct LastEnd {
    opened: Instant,
    known: watch::Sender<Option<Instant>>,
    /// How far the server's clock was set back since the elicitation was opened.
    set_back: Nanos,
    /// When the last renewal was sent, and the lease that it got, if that was short.
    short: Option<(Instant, Nanos)>,
}

/// Waits for the end that a [`LastEnd`] finds.
#[derive(Debug)]
pub(super) struct KnownEnd(watch::Receiver<Option<Instant>>);

impl LastEnd {
    /// For an elicitation whose increment was answered at `opened`.
    pub(super) fn new(opened: Instant, elicitation: &Elicitation, ttl: Duration) -> Self {
        let granted = granted(elicitation).filter(|granted| is_less(*granted, nanos(ttl), ttl));
        let known = granted.and_then(|granted| opened.checked_add(duration(granted)));
        Self { opened, known: watch::Sender::new(known), set_back: 0, short: None }
    }

    /// Updates it from the answer to a renewal that was sent at `sent` and requested `ttl`. `true`: only another renewal shows
    /// whether the lease was cut.
    pub(super) fn learn(&mut self, sent: Instant, answer: Option<&Elicitation>, ttl: Duration) -> bool {
        let Some(granted) = answer.and_then(granted) else { return false };
        let asked = nanos(sent.saturating_duration_since(self.opened)) + nanos(ttl);
        let before = self.short.take();
        if !is_less(granted + self.set_back, asked, ttl) {
            self.set_back = self.set_back.min(asked - granted).max(0);
            return false;
        }
        match before {
            // The end moved along with the renewals.
            Some((at, was)) if granted - was > nanos(sent.saturating_duration_since(at)) / 2 => {
                self.set_back = asked - granted;
                return false;
            }
            Some(_) => _ = self.known.send_replace(self.opened.checked_add(duration(granted + self.set_back))),
            None => {}
        }
        self.short = Some((sent, granted));
        before.is_none()
    }

    pub(super) fn known(&self) -> KnownEnd {
        KnownEnd(self.known.subscribe())
    }
}

impl KnownEnd {
    /// Never returns while no end is known.
    pub(super) async fn wait(&self) -> Instant {
        match self.0.clone().wait_for(Option::is_some).await.as_deref() {
            Ok(Some(end)) => *end,
            _ => std::future::pending().await,
        }
    }
}

fn is_less(granted: Nanos, asked: Nanos, ttl: Duration) -> bool {
    granted + nanos(ttl / 10 + TOLERANCE) < asked
}

/// From the opening of an elicitation to the end of its lease. Negative after the server's clock was set back.
fn granted(elicitation: &Elicitation) -> Option<Nanos> {
    let nanos = |time: prost_types::Timestamp| Nanos::from(time.seconds) * 1_000_000_000 + Nanos::from(time.nanos);
    Some(nanos(elicitation.expire_time?) - nanos(elicitation.create_time?))
}

fn nanos(duration: Duration) -> Nanos {
    duration.as_nanos().cast_signed()
}

fn duration(nanos: Nanos) -> Duration {
    Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn ending(after: i64) -> Elicitation {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        Elicitation { create_time: at(1_000_000), expire_time: at(1_000_000 + after), ..Elicitation::default() }
    }

    /// Learns from renewals `(sent, ends)`, in seconds after the opening; returns which of them need another one, and the end.
    fn learned(renewals: &[(u64, i64)]) -> (Vec<u64>, Option<u64>) {
        let opened = Instant::now();
        let mut end = LastEnd::new(opened, &ending(30), TTL);
        let unclear = renewals
            .iter()
            .filter(|(sent, ends)| end.learn(opened + Duration::from_secs(*sent), Some(&ending(*ends)), TTL));
        let unclear = unclear.map(|(sent, _)| *sent).collect();
        let known = end.known.borrow().map(|end| end.saturating_duration_since(opened).as_secs());
        (unclear, known)
    }

    #[test]
    fn a_lease_that_gets_less_than_it_asked_for_twice_was_cut() {
        assert_eq!(learned(&[(10, 40), (20, 45)]), (vec![20], None));
        assert_eq!(learned(&[(10, 40), (20, 45), (21, 45), (30, 45)]), (vec![20], Some(45)));
    }

    #[test]
    fn a_clock_that_is_set_back_cuts_no_lease() {
        let two_hours = 7_200;
        let set_back = [(10, 40), (20, 50 - two_hours), (21, 51 - two_hours), (30, 60 - two_hours)];
        assert_eq!(learned(&set_back), (vec![20], None));
        // A cut is noticed all the same, and the clock may be set forward again.
        let cut = [(10, 40 - two_hours), (11, 41 - two_hours), (20, 45 - two_hours), (21, 45 - two_hours)];
        assert_eq!(learned(&cut), (vec![10, 20], Some(45)));
        let forward = [(10, 40 - two_hours), (11, 41 - two_hours), (20, 50), (30, 45), (31, 45)];
        assert_eq!(learned(&forward), (vec![10, 30], Some(45)));
    }

    #[test]
    fn the_first_lease_shows_a_cut_at_once() {
        let opened = Instant::now();
        let mut at_once = LastEnd::new(opened, &ending(5), TTL);
        assert_eq!(*at_once.known.borrow(), Some(opened + Duration::from_secs(5)));
        assert!(!at_once.learn(opened, None, TTL));
        assert!(!at_once.learn(opened, Some(&Elicitation::default()), TTL));
        assert_eq!(
            *at_once.known.borrow(),
            Some(opened + Duration::from_secs(5)),
            "an end that is missing teaches nothing"
        );
    }
}
