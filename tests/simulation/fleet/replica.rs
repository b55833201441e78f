//! A replica: the real follower, challenge, chain, checkpoints, standby, clocks and freshness, over models of etcd and
//! of the network.
//!
//! Not real are gRPC, its streams, and the handover between the engine and the chain, which takes a thread
//! (`group_commit.rs`). Here one task does everything: the engine decides, the chain commits its batch, and then it is
//! published and answered.
use super::etcd::SimKv;
use super::machine::{Gate, Machine, begin};
use super::net::Node;
use super::oracle::Told;
use super::world::{Broken, World};
use pausewatch::test_support::clock::Clock;
use pausewatch::test_support::coordinator::{Call, Engine, Outcome, Settings};
use pausewatch::test_support::core::types::ThreadId;
use pausewatch::test_support::core::{Command, Refusal, Timestamp};
use pausewatch::test_support::etcd::{
    ClusterClock, Etcd, Fleet, Leader, LeaderLink, Leading, Leads, Looking, Pulse, ReplicaClock, Term, Vouched,
};
use pausewatch::test_support::hub::Hub;
use pausewatch::test_support::store::{CommitError, Contents, OpenError, Store, Write};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// As in `forward.rs`.
const HOLD: Duration = Duration::from_secs(10);
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// One process of a replica that has joined.
pub(super) struct Replica {
    pub(super) number: usize,
    world: Arc<World>,
    gate: Arc<Gate>,
    pub(super) fleet: Arc<Fleet<SimKv>>,
    pub(super) leading: Leading<Serving>,
    machine: Arc<Machine>,
    clock: Arc<ReplicaClock>,
    links: watch::Sender<Option<Link>>,
    drained: watch::Sender<bool>,
    /// Notified when the leader changes. Calls wait here because it wakes them in the order in which they came; tokio's
    /// `watch` wakes in random order.
    turned: Notify,
}

/// A term, as calls see it.
#[derive(Clone)]
pub(super) struct Serving {
    asks: mpsc::UnboundedSender<Ask>,
    hub: Arc<Hub>,
    pulse: Arc<Pulse>,
    clock: Arc<ClusterClock>,
    number: u64,
}

enum Ask {
    Call(Call, oneshot::Sender<Outcome>),
    Confirm(oneshot::Sender<()>),
}

const NOT_LEADING: Refusal = Refusal::NotLeading { leader: None };

impl Serving {
    async fn call(&self, call: Call) -> Outcome {
        let (answer, answered) = oneshot::channel();
        let _ = self.asks.send(Ask::Call(call, answer));
        answered.await.unwrap_or(Err(NOT_LEADING))
    }
}

impl Leads for Serving {
    async fn confirm(&self) -> Result<(), Refusal> {
        let (answer, answered) = oneshot::channel();
        let _ = self.asks.send(Ask::Confirm(answer));
        answered.await.map_err(|_| NOT_LEADING)
    }

    fn hub(&self) -> &Hub {
        &self.hub
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

/// The connection to a leader.
#[derive(Clone)]
pub(super) struct Link {
    world: Arc<World>,
    from: usize,
    to: usize,
    leader: Leader,
}

impl Link {
    /// Runs `work` at the other end, and waits for its answer.
    async fn ask<T, F>(&self, work: impl FnOnce(Arc<Replica>) -> F + Send + 'static) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = Option<T>> + Send + 'static,
    {
        let leader = self.leader.replica;
        let at = move |replica: Arc<Replica>| async move {
            match replica.fleet.replica() == leader {
                true => work(replica).await,
                // There is another process at this address.
                false => None,
            }
        };
        self.world.ask(Node::Replica(self.from), self.to, at).await
    }
}

impl LeaderLink for Link {
    fn term(&self) -> u64 {
        self.leader.term
    }

    fn address(&self) -> &str {
        &self.leader.address
    }

    async fn look(self, anew: bool) -> Result<Vouched, String> {
        self.ask(move |leader| async move { leader.leading.vouch(anew).await }).await.ok_or("it does not lead".into())
    }
}

/// The store of an engine: records the batch, which is committed before any of it is published.
#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Note>>);

type Encoder = Arc<dyn Fn(&[Write<'_>]) -> Vec<u8> + Send + Sync>;

#[derive(Default)]
struct Note {
    contents: Option<Contents>,
    batch: Option<Vec<u8>>,
    confirms: bool,
    encoder: Option<Encoder>,
}

impl Noted {
    fn note(&self) -> std::sync::MutexGuard<'_, Note> {
        self.0.lock().expect("no panic while locked")
    }
}

impl Store for Noted {
    fn load(&mut self, _: Timestamp) -> Result<Contents, OpenError> {
        Ok(self.note().contents.take().expect("it is loaded once"))
    }

    fn commit(&mut self, batch: &[Write<'_>]) -> Result<(), CommitError> {
        let mut note = self.note();
        let encoder = note.encoder.clone().expect("there is one");
        note.batch = Some(encoder(batch));
        Ok(())
    }

    fn confirm(&mut self) -> Result<(), CommitError> {
        self.note().confirms = true;
        Ok(())
    }
}

/// Runs the process until it is killed or drained.
pub(super) async fn run(
    world: Arc<World>,
    number: usize,
    machine: Arc<Machine>,
    gate: Arc<Gate>,
    dead: Arc<AtomicBool>,
) {
    let kv = SimKv::new(world.cluster.clone(), number, dead);
    let spawn = {
        let gate = gate.clone();
        move |work| begin(&gate, work)
    };
    let fleet = loop {
        match Fleet::join_over(kv.clone(), "/simulated", machine.clone(), spawn.clone()).await {
            Ok(fleet) => break Arc::new(fleet),
            // A service manager restarts it.
            Err(OpenError::Io(_)) => sleep(Duration::from_secs(1)).await,
            Err(error) => return world.oracle.violation(format!("harness: a replica cannot join: {error}")),
        }
    };
    let leader_clock = fleet.leader_clock().clone();
    let error = move |term, at| leader_clock.offset(term).map(|_| leader_clock.error(at));
    world.oracle.joined(fleet.replica(), Box::new(error));
    let leading = Leading::new(fleet.progress().clone(), machine.clone());
    let clock = Arc::new(ReplicaClock::new(machine.clone(), fleet.id()));
    fleet.progress().begin(i64::MIN);
    let (links, drained) = (watch::Sender::new(None), watch::Sender::new(false));
    let replica = Arc::new(Replica {
        number,
        world: world.clone(),
        gate: gate.clone(),
        fleet,
        leading,
        machine,
        clock,
        links,
        drained,
        turned: Notify::new(),
    });
    world.started(&replica);
    begin(&gate, replica.clone().follow_leader());
    replica.lead().await;
    world.ended(number);
}

impl Replica {
    /// Gives up the leadership, and ends.
    pub(super) fn drain(&self) {
        self.drained.send_replace(true);
    }

    pub(super) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    pub(super) fn world(&self) -> &Arc<World> {
        &self.world
    }

    async fn follow_leader(self: Arc<Self>) {
        let (progress, leader_clock) = (self.fleet.progress().clone(), self.fleet.leader_clock().clone());
        let looking = Looking { progress, leader_clock, machine: self.machine.clone(), clock: self.clock.clone() };
        let connect = async {
            let mut leader = self.fleet.leader();
            loop {
                let known = leader.borrow_and_update().clone().filter(|leader| leader.replica != self.fleet.replica());
                let link = known.map(|leader| Link {
                    world: self.world.clone(),
                    from: self.number,
                    to: leader.address.parse().expect("an address is a number here"),
                    leader,
                });
                self.links.send_replace(link);
                leader.changed().await.expect("the fleet lives as long");
            }
        };
        let tell = async {
            let (mut links, mut terms) = (self.links.subscribe(), self.leading.terms());
            loop {
                tokio::select! {
                    biased;
                    _ = links.changed() => {}
                    _ = terms.changed() => {}
                }
                self.turned.notify_waiters();
            }
        };
        tokio::join!(
            connect,
            tell,
            looking.compare_clocks(self.links.subscribe()),
            looking.look(self.links.subscribe())
        );
    }

    async fn lead(&self) {
        let (mut drained, address) = (self.drained.subscribe(), self.number.to_string());
        loop {
            let term = tokio::select! {
                biased;
                _ = drained.wait_for(|drained| *drained) => return,
                term = self.fleet.lead(&address) => term,
            };
            match term {
                Ok(term) => self.serve(term).await,
                Err(error) => return self.world.oracle.violation(format!("I7: replica {}: {error}", self.number)),
            }
        }
    }

    /// Serves a term to its end, as `Replica::lead` of the server does.
    async fn serve(&self, term: Term) {
        let Term { mut store, clock, pulse, number, mut ended } = term;
        let oracle = &self.world.oracle;
        let hub = self.fleet.progress().hub().clone();
        self.clock.set(clock.at(0));
        self.clock.beat(Some(pulse.clone()));
        hub.safe_time().end();
        let contents = store.load(clock.now()).expect("a standby is loaded already");
        let store = Arc::new(store);
        let encoder = {
            let (store, oracle) = (Arc::downgrade(&store), oracle.clone());
            move |batch: &[Write<'_>]| {
                let encoded = store.upgrade().map(|store: Arc<Etcd>| store.encode(batch)).unwrap_or_default();
                oracle.decided(encoded.clone(), batch);
                encoded
            }
        };
        let noted = Noted::default();
        *noted.note() = Note { contents: Some(contents), encoder: Some(Arc::new(encoder)), ..Note::default() };
        let engine = Engine::with(Box::new(noted.clone()), clock.clone(), Settings::default(), &hub);
        let mut engine = engine.expect("what was taken over is sound");
        oracle.serves(number, self.number);
        let (asks, mut asked) = mpsc::unbounded_channel();
        let serving = Serving { asks, hub: hub.clone(), pulse: pulse.clone(), clock: clock.clone(), number };
        self.leading.begin(serving);
        let mut drained = self.drained.subscribe();
        loop {
            let due = u64::try_from(engine.next_due().saturating_sub(clock.boot())).unwrap_or(0);
            let first = tokio::select! {
                biased;
                _ = &mut ended => break,
                _ = drained.wait_for(|drained| *drained) => break,
                ask = asked.recv() => ask,
                () = sleep(Duration::from_nanos(due).min(Duration::from_secs(1))) => None,
            };
            let (mut calls, mut callers, mut reads) = (Vec::new(), Vec::new(), Vec::new());
            for ask in first.into_iter().chain(std::iter::from_fn(|| asked.try_recv().ok())) {
                match ask {
                    Ask::Call(call, answer) => {
                        calls.push(call);
                        callers.push(answer);
                    }
                    Ask::Confirm(answer) => reads.push(answer),
                }
            }
            // A batch in the same round would detect that the term has ended.
            if self.world.broken == Broken::Confirmation {
                reads.drain(..).for_each(|read: oneshot::Sender<()>| _ = read.send(()));
            }
            hub.safe_time().begin(clock.boot());
            let (mut outcomes, mut committed) = (Vec::new(), Vec::new());
            engine.process(&calls, &mut outcomes, &mut committed).expect("it is only noted");
            let (batch, confirms) = {
                let mut note = noted.note();
                (note.batch.take(), std::mem::take(&mut note.confirms))
            };
            let done = match batch {
                Some(batch) => store.commit_encoded(batch).await,
                None if self.world.broken == Broken::Confirmation => Ok(()),
                None if confirms || !reads.is_empty() => store.confirm_later().await,
                None => Ok(()),
            };
            match done {
                Ok(()) => {}
                Err(CommitError::Deposed(_)) => break,
                Err(error) => return oracle.violation(format!("harness: the model of etcd refuses nothing: {error}")),
            }
            hub.publish(committed);
            callers.into_iter().zip(outcomes).for_each(|(caller, outcome)| _ = caller.send(outcome));
            reads.into_iter().for_each(|read| _ = read.send(()));
            hub.safe_time().end();
        }
        self.leading.end();
        drop((asked, engine, store));
        if *self.drained.borrow() {
            let _ = timeout(Duration::from_secs(1), ended).await;
        }
        let sure = Timestamp { boot: clock.at(pulse.last()), wall: 0 };
        self.fleet.progress().begin(hub.safe_time().limit(sure).boot);
        self.clock.beat(None);
    }

    /// Lets the leader answer a call, as `Forwarder` does.
    async fn by_leader<T, F, G>(&self, at_leader: F) -> Option<T>
    where
        T: Send + 'static,
        F: Fn(Arc<Replica>, Serving) -> G + Clone + Send + Sync + 'static,
        G: Future<Output = Option<T>> + Send + 'static,
    {
        let over = Instant::now() + HOLD;
        let me = self.world.replica(self.number)?;
        while Instant::now() < over {
            let turned = self.turned.notified();
            if let Some(serving) = self.leading.serving() {
                // Its term may end meanwhile: then the client retries.
                return at_leader(me, serving).await;
            }
            let link = self.links.borrow().clone();
            let attempt = async {
                match link {
                    None => std::future::pending().await,
                    Some(link) => {
                        let at_leader = at_leader.clone();
                        let work = move |leader: Arc<Replica>| async move {
                            let serving = leader.leading.serving()?;
                            at_leader(leader, serving).await
                        };
                        link.ask(work).await
                    }
                }
            };
            tokio::select! {
                biased;
                answer = attempt => if answer.is_some() { return answer },
                () = turned => continue,
                () = tokio::time::sleep_until(over) => return None,
            }
            let _ = timeout_at(over, sleep(AGAIN_AFTER)).await;
        }
        None
    }

    /// `None`: UNAVAILABLE.
    pub(super) async fn change(&self, thread: ThreadId, command: Command) -> Option<Outcome> {
        let call = move |_, serving: Serving| {
            let (thread, command) = (thread.clone(), command.clone());
            async move {
                match serving.call(Call::from((thread, command))).await {
                    Err(Refusal::NotLeading { .. }) => None,
                    outcome => Some(outcome),
                }
            }
        };
        self.by_leader(call).await
    }

    pub(super) async fn get(&self, thread: ThreadId) -> Option<Told> {
        let read = move |leader: Arc<Replica>, serving: Serving| {
            let thread = thread.clone();
            async move {
                serving.confirm().await.ok()?;
                Some(leader.show(&thread))
            }
        };
        self.by_leader(read).await
    }

    /// The state that the hub shows.
    pub(super) fn show(&self, thread: &ThreadId) -> Told {
        let hub = self.fleet.progress().hub();
        let now = match self.world.broken {
            Broken::Horizon => self.clock.now(),
            _ => hub.safe_time().limit(self.clock.now()),
        };
        let view = hub.get(thread);
        let (pause, revision) = view.header.map_or_else(Default::default, |header| (header.pause, header.revision));
        let total = super::machine::nanos(pause.total(now));
        Told { revision, count: view.open.len(), paused: pause.since.is_some(), total }
    }

    /// The start of its last call to etcd that was answered.
    pub(super) fn reached(&self) -> Option<Instant> {
        self.world.cluster.reached(self.number)
    }
}
