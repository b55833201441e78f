//! The current role of this replica: the term in which it leads, or its progress as a follower.
use super::super::grpc::Elicitations;
use super::super::status;
use super::answer_room::AnswerRoom;
use crate::clock::Clock;
use crate::coordinator::Coordinator;
use crate::coordinator::hub::Hub;
use crate::coordinator::metrics::FleetState;
use crate::coordinator::store::etcd::{ClusterClock, FRESH_FOR, LeaderClock, Progress, Pulse};
use crate::core::Refusal;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::codegen::{Service, http};

/// A term in which a replica leads. Simulations replace this trait.
pub trait Leads: Clone + Send + Sync + 'static {
    /// Waits until etcd has confirmed that the term has not ended, and that the hub shows the latest state.
    fn confirm(&self) -> impl Future<Output = Result<(), Refusal>> + Send;
    /// The hub, which shows the decisions of the engine.
    fn hub(&self) -> &Hub;
    /// When etcd was reached last.
    fn pulse(&self) -> &Pulse;
    /// The cluster clock.
    fn clock(&self) -> &ClusterClock;
    /// The number of the term.
    fn number(&self) -> u64;
}

/// The services of a term.
#[derive(Clone)]
pub struct Serving {
    pub(super) elicitations: Elicitations,
    pub(super) coordinator: Arc<Coordinator>,
    /// Calls that are being answered.
    pub(super) calls: TaskTracker,
    pub(super) pulse: Arc<Pulse>,
    pub(super) clock: Arc<ClusterClock>,
    pub(super) number: u64,
}

impl Leads for Serving {
    async fn confirm(&self) -> Result<(), Refusal> {
        self.coordinator.confirm().await
    }

    fn hub(&self) -> &Hub {
        self.coordinator.hub()
    }

    fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    fn clock(&self) -> &ClusterClock {
        &self.clock
    }

    fn number(&self) -> u64 {
        self.number
    }
}

impl Serving {
    /// Answers a unary call as the leader.
    pub(super) async fn answer(self, request: http::Request<Body>) -> Result<http::Response<Body>, Infallible> {
        self.answer_within(request, None).await
    }

    /// Answers a unary call as the leader. A read waits until there is `room` for its answer.
    pub(super) async fn answer_within(
        self,
        request: http::Request<Body>,
        room: Option<AnswerRoom>,
    ) -> Result<http::Response<Body>, Infallible> {
        let _token = self.calls.token();
        // Dropped before the token: the term ends after its last call.
        let mut serving = self;
        if commits(request.uri().path()) {
            return serving.elicitations.call(request).await;
        }
        if let Err(refusal) = serving.coordinator.confirm().await {
            return Ok(status::of(&refusal).into_http());
        }
        let answer = serving.elicitations.call(request);
        match room {
            Some(room) => room.limit(answer).await,
            None => answer.await,
        }
    }
}

/// Whether the engine answers the call, which then confirms with etcd by itself.
fn commits(path: &str) -> bool {
    ["IncrementElicitation", "DecrementElicitation", "RenewElicitation"].iter().any(|method| path.ends_with(method))
}

/// The current role of a replica. Clones share it.
#[derive(Clone)]
pub struct Leading<T = Serving>(Arc<Present<T>>);

struct Present<T> {
    term: watch::Sender<Option<T>>,
    progress: Arc<Progress>,
    machine: Arc<dyn Clock>,
    /// When the last term was last sure that it led, on the clock of the machine.
    last_pulse: AtomicI64,
    terms_led: AtomicU64,
    /// Unknown outcomes of earlier terms.
    in_doubt: AtomicU64,
    is_stopping: AtomicBool,
}

/// The state that a leader vouches for.
pub struct Vouched {
    /// Its term.
    pub term: u64,
    /// The cluster clock.
    pub clock: i64,
    /// Everything that was decided before this moment of the cluster clock...
    pub horizon: i64,
    /// ...is in the log up to this entry.
    pub seq: u64,
}

impl<T: Leads> Leading<T> {
    /// The role of a replica that follows as `progress` says.
    pub fn new(progress: Arc<Progress>, machine: Arc<dyn Clock>) -> Self {
        Leading(Arc::new(Present {
            term: watch::Sender::new(None),
            progress,
            machine,
            last_pulse: AtomicI64::new(i64::MIN),
            terms_led: AtomicU64::new(0),
            in_doubt: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
        }))
    }

    /// The replica leads from now on.
    pub fn begin(&self, serving: T) {
        self.0.terms_led.fetch_add(1, SeqCst);
        self.0.term.send_replace(Some(serving));
    }

    /// The replica no longer leads.
    pub fn end(&self) {
        if let Some(serving) = self.0.term.send_replace(None) {
            self.0.last_pulse.store(serving.pulse().last(), SeqCst);
            self.0.in_doubt.fetch_add(serving.pulse().in_doubt(), SeqCst);
        }
    }

    /// From now on, no call waits for a leader.
    pub(crate) fn stop(&self) {
        self.0.is_stopping.store(true, SeqCst);
        // Wakes the calls that wait.
        self.0.term.send_modify(|_| ());
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.0.is_stopping.load(SeqCst)
    }

    /// The term in which it leads now.
    pub fn serving(&self) -> Option<T> {
        self.0.term.borrow().clone()
    }

    /// Changes when a term begins or ends.
    pub fn terms(&self) -> watch::Receiver<Option<T>> {
        self.0.term.subscribe()
    }

    /// Whether this replica was sure of the latest state a moment ago.
    pub fn is_fresh(&self) -> bool {
        self.age() < FRESH_FOR
    }

    /// How long ago this replica was sure of the latest state, in nanoseconds.
    fn age(&self) -> i64 {
        let Present { progress, machine, last_pulse, .. } = &*self.0;
        let sure = match &*self.0.term.borrow() {
            Some(serving) => serving.pulse().last(),
            None => progress.good_since().max(last_pulse.load(SeqCst)),
        };
        machine.boot().saturating_sub(sure)
    }

    /// The state for the metrics. `following`: the term of the known leader.
    pub(crate) fn figures(&self, following: Option<u64>, clock: &LeaderClock) -> FleetState {
        let present = &*self.0;
        let of_term = FleetState {
            age: Duration::from_nanos(self.age().max(0).unsigned_abs()),
            takeovers: present.terms_led.load(SeqCst),
            in_doubt: present.in_doubt.load(SeqCst),
            ..FleetState::default()
        };
        match self.serving() {
            Some(serving) => {
                let (pulse, term) = (serving.pulse(), serving.number());
                let in_doubt = of_term.in_doubt + pulse.in_doubt();
                FleetState { leads: true, term, in_doubt, log_bytes: pulse.log_bytes(), ..of_term }
            }
            None => FleetState {
                term: following.unwrap_or_default(),
                lag: present.progress.lag(),
                clock_error: Duration::from_nanos(clock.error(present.machine.boot()).unsigned_abs()),
                ..of_term
            },
        }
    }

    /// Waits until this replica shows at least everything that any replica had answered when this was called.
    ///
    /// # Errors
    /// This replica cannot find out.
    pub async fn confirm(&self) -> Result<(), Refusal> {
        let mut terms = self.terms();
        let confirmed = async {
            while !self.is_stopping() {
                let serving = terms.borrow_and_update().clone();
                let confirm = async {
                    match &serving {
                        Some(serving) => serving.confirm().await,
                        None => match self.0.progress.confirm().await {
                            true => Ok(()),
                            false => Err(Refusal::NotLeading { leader: None }),
                        },
                    }
                };
                tokio::select! {
                    biased;
                    confirmed = confirm => match confirmed {
                        // The term is over; the next role can be asked.
                        Err(Refusal::NotLeading { .. }) => _ = terms.changed().await,
                        confirmed => return confirmed,
                    },
                    _ = terms.changed() => {}
                }
            }
            Err(Refusal::NotLeading { leader: None })
        };
        let within = Duration::from_nanos(FRESH_FOR.unsigned_abs());
        timeout(within, confirmed).await.unwrap_or(Err(Refusal::NotLeading { leader: None }))
    }

    /// The state that this replica vouches for as the leader; `None`: it does not lead. `anew`: it confirms with etcd
    /// first, and vouches for the state at present.
    pub async fn vouch(&self, anew: bool) -> Option<Vouched> {
        let serving = self.serving()?;
        let (pulse, clock, term) = (serving.pulse(), serving.clock(), serving.number());
        // The horizon is read before the entry: later decisions may be in a later entry.
        let limit = serving.hub().safe_time().limit(clock.now()).boot;
        let horizon = match anew {
            true => serving.confirm().await.ok().map(|()| limit)?,
            // Another replica may have decided since then.
            false => limit.min(clock.at(pulse.last())),
        };
        (self.0.machine.boot().saturating_sub(pulse.last()) < FRESH_FOR).then_some(())?;
        Some(Vouched { term, horizon, seq: pulse.seq(), clock: clock.boot() })
    }
}
