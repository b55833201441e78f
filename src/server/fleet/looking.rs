//! The looks that a follower sends its leader continuously: for its clock, and for the time up to which durations may
//! be shown.
use super::clock::ReplicaClock;
use super::leading::Vouched;
use crate::clock::Clock;
use crate::coordinator::store::etcd::{LeaderClock, Progress};
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How often the clocks are compared.
const COMPARE_EVERY: Duration = Duration::from_millis(200);
/// A slower answer is too inexact for comparing clocks.
const COMPARE_WITHIN: Duration = Duration::from_millis(200);
/// The longest time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The timeout of a look: the leader may have to wait for etcd. Three attempts fit into the time in which a follower is
/// fresh.
const LOOK_WITHIN: Duration = Duration::from_millis(900);
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// The time (nanoseconds) after which an unreachable leader is reported: a dead one would have been replaced by then.
const UNREACHED: i64 = 3_000_000_000;

/// A connection to a leader. Simulations replace this trait.
pub trait LeaderLink: Clone + Send + Sync + 'static {
    /// The term of the leader.
    fn term(&self) -> u64;
    /// The address that the leader advertises.
    fn address(&self) -> &str;
    /// Asks the leader what it vouches for. `anew`: after it has confirmed with etcd.
    fn look(self, anew: bool) -> impl Future<Output = Result<Vouched, String>> + Send;
}

/// The state that the answers to looks update.
pub struct Looking {
    /// How far the follower is.
    pub progress: Arc<Progress>,
    /// The leader's clock.
    pub leader_clock: Arc<LeaderClock>,
    /// The clock of the machine.
    pub machine: Arc<dyn Clock>,
    /// The clock of the follower.
    pub clock: Arc<ReplicaClock>,
}

/// Reports once per leader that it is unreachable, and why.
#[derive(Default)]
struct Reach {
    term: u64,
    failing_since: Option<i64>,
    is_reported: bool,
}

impl Reach {
    fn of(&mut self, term: u64) -> &mut Self {
        if self.term != term {
            *self = Reach { term, ..Reach::default() };
        }
        self
    }

    /// Whether to report the failure at `now`.
    fn failed(&mut self, now: i64) -> bool {
        let since = *self.failing_since.get_or_insert(now);
        now.saturating_sub(since) >= UNREACHED && !std::mem::replace(&mut self.is_reported, true)
    }

    /// Whether to report that it is reachable again.
    fn succeeded(&mut self) -> bool {
        self.failing_since = None;
        std::mem::take(&mut self.is_reported)
    }
}

impl Looking {
    /// Waits until a leader is known.
    async fn linked<L: LeaderLink>(links: &mut watch::Receiver<Option<L>>) -> L {
        match links.wait_for(Option::is_some).await.ok().and_then(|link| link.clone()) {
            Some(link) => link,
            None => pending().await,
        }
    }

    /// Records an answer of the leader of `term` to a request that was sent at `asked`, on the clock of the machine.
    fn heard(&self, term: u64, asked: i64, answer: &Vouched) {
        self.leader_clock.sample(term, asked, answer.clock, self.machine.boot());
        let offset = self.leader_clock.offset(term).filter(|_| self.progress.follows());
        offset.into_iter().for_each(|offset| self.clock.set(offset));
    }

    /// Compares the clocks. Never returns.
    pub async fn compare_clocks<L: LeaderLink>(&self, mut links: watch::Receiver<Option<L>>) {
        loop {
            let link = Self::linked(&mut links).await;
            let asked = self.machine.boot();
            let term = link.term();
            let looked = timeout(COMPARE_WITHIN, link.look(false)).await;
            match looked {
                Ok(Ok(answer)) if answer.term == term => {
                    self.heard(term, asked, &answer);
                    self.progress.holds(answer.seq, answer.horizon);
                }
                Ok(Ok(_)) => {}
                Ok(Err(why)) => tracing::debug!(why, "compare the leader's clock"),
                Err(_) => tracing::debug!("the leader's clock does not answer"),
            }
            sleep(COMPARE_EVERY).await;
        }
    }

    /// Requests the state that the leader vouches for. Never returns.
    pub async fn look<L: LeaderLink>(&self, mut links: watch::Receiver<Option<L>>) {
        let progress = &self.progress;
        let mut reach = Reach::default();
        loop {
            let link = Self::linked(&mut links).await;
            progress.looks.begin(LOOK_EVERY, || self.machine.boot()).await;
            let (term, asked, address) = (link.term(), self.machine.boot(), link.address().to_owned());
            let looked = timeout(LOOK_WITHIN, link.look(true));
            let looked = tokio::select! {
                biased;
                looked = looked => looked,
                // The answer of this leader is useless.
                _ = links.changed() => {
                    progress.looks.request();
                    continue;
                }
            };
            let why = match looked {
                Ok(Ok(answer)) if answer.term == term => {
                    // No duration may be shown by a clock that was never compared. Later comparisons are more exact,
                    // because for this answer the leader may have waited for etcd.
                    if self.leader_clock.offset(term).is_none() {
                        self.heard(term, asked, &answer);
                    }
                    progress.holds(answer.seq, answer.horizon);
                    progress.looks.succeed(answer.seq);
                    if reach.of(term).succeeded() {
                        tracing::info!(address, "the leader is reached again");
                    }
                    continue;
                }
                Ok(Ok(_)) => "it is in another term".to_owned(),
                Ok(Err(why)) => why,
                Err(_) => format!("no answer within {} ms", LOOK_WITHIN.as_millis()),
            };
            tracing::debug!(why, "look at the leader");
            if reach.of(term).failed(self.machine.boot()) {
                tracing::warn!(
                    address,
                    why,
                    "the leader is not reached: check the network, its --advertise, and --peer-ca here"
                );
            }
            progress.looks.request();
            sleep(AGAIN_AFTER).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Manual;
    use crate::coordinator::hub::Hub;
    use crate::core::Timestamp;

    /// A leader whose clock is an hour ahead.
    #[derive(Clone)]
    struct Ahead(Arc<Manual>);

    const HOUR: i64 = 3_600_000_000_000;

    impl LeaderLink for Ahead {
        fn term(&self) -> u64 {
            1
        }

        fn address(&self) -> &str {
            "ahead:1"
        }

        async fn look(self, _: bool) -> Result<Vouched, String> {
            let clock = self.0.boot() + HOUR;
            Ok(Vouched { term: 1, clock, horizon: clock, seq: 0 })
        }
    }

    #[test]
    fn a_leader_that_is_not_reached_is_reported_once_a_term() {
        let mut reach = Reach::default();
        assert!(!reach.of(1).failed(0) && !reach.of(1).failed(UNREACHED - 1));
        assert!(reach.of(1).failed(UNREACHED) && !reach.of(1).failed(2 * UNREACHED), "once");
        assert!(reach.of(1).succeeded() && !reach.of(1).succeeded(), "and its end");
        assert!(!reach.of(1).failed(3 * UNREACHED) && !reach.of(2).failed(5 * UNREACHED), "another leader");
        assert!(!reach.of(2).succeeded(), "it is not told what was not told to have ended");
    }

    /// After a call has waited for a look, its durations are by the leader's clock, whenever the clocks are compared.
    #[tokio::test(start_paused = true)]
    async fn a_first_look_sets_the_clock() {
        let machine = Arc::new(Manual::new(Timestamp { boot: 1_000, wall: 0 }, 1));
        let (progress, clock) = (Arc::new(Progress::new(Arc::<Hub>::default())), ReplicaClock::new(machine.clone(), 7));
        progress.begin(i64::MIN);
        let (clock, link) = (Arc::new(clock), watch::Sender::new(Some(Ahead(machine.clone()))));
        let looking = Looking {
            progress: progress.clone(),
            leader_clock: Arc::default(),
            machine: machine.clone(),
            clock: clock.clone(),
        };
        let links = link.subscribe();
        let task = tokio::spawn(async move { looking.look(links).await });
        // Its first look is over by then.
        sleep(2 * LOOK_EVERY).await;
        assert_eq!(clock.boot(), 1_000 + HOUR);
        task.abort();
    }
}
