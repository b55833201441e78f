//! The time at which a server with a maximum pause ends an elicitation, however often it is renewed.
//!
//! Such a server cuts the ends of leases, so a lease that is shorter than requested shows that time. All times of the
//! server are compared with the time at which it opened the elicitation, so its clock may differ from ours.
use crate::client::Elicitation;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// The server's wall clock may be corrected a little meanwhile.
const TOLERANCE: Duration = Duration::from_millis(100);

/// The latest end of the lease, as far as it is known. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct LastEnd {
    opened: Instant,
    known: Arc<watch::Sender<Option<Instant>>>,
}

impl LastEnd {
    /// For an elicitation whose increment was answered at `opened`.
    pub(super) fn new(opened: Instant, elicitation: &Elicitation, ttl: Duration) -> Self {
        let new = Self { opened, known: Arc::default() };
        new.learn(opened, Some(elicitation), ttl);
        new
    }

    /// Updates it from the answer to a call that was sent at `sent` and requested `ttl`.
    pub(super) fn learn(&self, sent: Instant, answer: Option<&Elicitation>, ttl: Duration) {
        let Some(granted) = answer.and_then(granted) else { return };
        let asked = sent.saturating_duration_since(self.opened).saturating_add(ttl);
        if granted + ttl / 10 + TOLERANCE < asked {
            self.known.send_replace(self.opened.checked_add(granted));
        }
    }

    pub(super) async fn known(&self) -> Instant {
        let mut known = self.known.subscribe();
        let end = known.wait_for(Option::is_some).await.expect("this has a sender");
        end.expect("it was waited for")
    }
}

/// From the opening of an elicitation to the end of its lease.
fn granted(elicitation: &Elicitation) -> Option<Duration> {
    let nanos = |time: prost_types::Timestamp| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let granted = nanos(elicitation.expire_time?) - nanos(elicitation.create_time?);
    Some(Duration::from_nanos(u64::try_from(granted).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn ending(after: u64) -> Elicitation {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        Elicitation { create_time: at(1_000), expire_time: at(1_000 + after.cast_signed()), ..Elicitation::default() }
    }

    #[test]
    fn the_end_is_known_when_a_lease_gets_less_than_it_asked_for() {
        let opened = Instant::now();
        let after = |seconds| opened + Duration::from_secs(seconds);
        let end = LastEnd::new(opened, &ending(30), TTL);
        end.learn(after(10), Some(&ending(40)), TTL);
        assert_eq!(*end.known.borrow(), None);
        end.learn(after(20), Some(&ending(45)), TTL);
        assert_eq!(*end.known.borrow(), Some(after(45)));
        let at_once = LastEnd::new(opened, &ending(5), TTL);
        assert_eq!(*at_once.known.borrow(), Some(after(5)));
        end.learn(after(30), None, TTL);
        end.learn(after(30), Some(&Elicitation::default()), TTL);
        assert_eq!(*end.known.borrow(), Some(after(45)), "an end that is missing teaches nothing");
    }
}
