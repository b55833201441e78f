//! Clients: they change, read and watch threads, at whichever replica serves.
use super::net::Node;
use super::oracle::{Asked, Told};
use super::replica::Replica;
use super::world::{REPLICAS, World};
use fastrand::Rng;
use pausewatch::test_support::core::types::{ElicitationId, ThreadId, Ttl};
use pausewatch::test_support::core::{Answer, Command, ElicitationRef, Refusal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

/// As in the client libraries.
const ATTEMPT: Duration = Duration::from_millis(1_500);
const SILENCE: Duration = Duration::from_millis(2_500);
/// A call that is not answered within this time is given up; its outcome is unknown.
const PATIENCE: Duration = Duration::from_secs(40);
/// The longest silence of a stream.
const HEARTBEAT: Duration = Duration::from_secs(1);

pub(super) fn thread(number: usize) -> ThreadId {
    ThreadId::parse("thread_id", &format!("thread-{number}")).expect("valid")
}

/// A client.
pub(super) struct Client {
    pub(super) world: Arc<World>,
    pub(super) number: usize,
    pub(super) random: Rng,
    pub(super) at: usize,
    pub(super) stop: Arc<AtomicBool>,
    /// How often it checks its streams.
    pub(super) pace: Duration,
}

impl Client {
    /// Runs `work` at one replica after another until one answers.
    async fn call<T, F>(&mut self, work: impl Fn(Arc<Replica>) -> F + Clone + Send + 'static) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = Option<T>> + Send + 'static,
    {
        let give_up = Instant::now() + PATIENCE;
        while Instant::now() < give_up {
            let asked = self.world.ask(Node::Client(self.number), self.at, work.clone());
            match timeout(ATTEMPT, asked).await {
                Ok(Some(answer)) => return Some(answer),
                Ok(None) => self.world.oracle.count("calls that nobody could answer at once"),
                Err(_) => self.world.oracle.count("calls that were made again for want of an answer"),
            }
            self.at = (self.at + 1) % REPLICAS;
            sleep(Duration::from_millis(self.random.u64(5..40))).await;
        }
        self.world.oracle.count("calls whose outcome stayed unknown");
        None
    }

    /// Opens an elicitation.
    async fn open(&mut self, thread: &ThreadId, request: &str, ttl: Option<Duration>) -> Option<ElicitationId> {
        let ttl = ttl.map(|ttl| Ttl::new("ttl", ttl).expect("valid"));
        let (request_id, reason, holder) = (request.into(), "why".into(), "simulated".into());
        let command = Command::Increment { request_id, reason, holder, ttl };
        let of = thread.clone();
        let outcome = self.call(move |replica| change(replica, of.clone(), command.clone())).await?;
        match outcome {
            Ok(Answer::Incremented { count, revision, elicitation, .. }) => {
                self.world.oracle.answered(thread.as_str(), request, count as usize, revision);
                Some(elicitation.id)
            }
            other => {
                self.world.oracle.violation(format!("G4: {request} on {thread}: {other:?}"));
                None
            }
        }
    }

    /// Closes an elicitation, or the oldest one.
    async fn close(&mut self, thread: &ThreadId, request: &str, id: Option<ElicitationId>) {
        let elicitation = id.map(|id| ElicitationRef(id.to_string().into()));
        let command = Command::Decrement { request_id: request.into(), elicitation, by_admin: false };
        let (of, oracle) = (thread.clone(), self.world.oracle.clone());
        let Some(outcome) = self.call(move |replica| change(replica, of.clone(), command.clone())).await else {
            return;
        };
        match outcome {
            Ok(Answer::Decremented { count, revision }) => {
                oracle.answered(thread.as_str(), request, count as usize, revision);
            }
            Err(Refusal::NoOutstanding { .. }) if id.is_none() => {}
            Err(Refusal::Expired { .. } | Refusal::Released { .. }) if id.is_some_and(|id| !oracle.is_open(id)) => {}
            other => oracle.violation(format!("I2: {request} on {thread}: {other:?}")),
        }
    }

    async fn read(&mut self, thread: &ThreadId) {
        let (oracle, of) = (self.world.oracle.clone(), thread.clone());
        let asked = oracle.asks(thread.as_str());
        let (who, told_to) = (format!("client {}", self.number), thread.clone());
        let read = move |replica: Arc<Replica>| {
            let of = of.clone();
            async move { replica.get(of).await }
        };
        if let Some(told) = self.call(read).await {
            oracle.count("reads");
            oracle.told(&who, told_to.as_str(), told, asked, None);
        }
    }

    /// Changes and reads the threads from 0 to `busy` until `stop` is set.
    pub(super) async fn work(mut self, busy: usize, calm: u64) {
        let mut calls = 0;
        while !self.stop.load(SeqCst) {
            sleep(Duration::from_millis(self.random.u64(20..calm))).await;
            calls += 1;
            let thread = thread(self.random.usize(..busy));
            let name = |what: &str| format!("{what}-{}-{calls}", self.number);
            let (open, close) = (name("open"), name("close"));
            match self.random.u8(..10) {
                0..6 => {
                    let ttl = (self.random.u8(..4) > 0).then(|| Duration::from_millis(self.random.u64(1_000..9_000)));
                    let Some(id) = self.open(&thread, &open, ttl).await else { continue };
                    if self.random.u8(..4) == 0 {
                        // Repeats the same call.
                        self.open(&thread, &open, ttl).await;
                    }
                    if ttl.is_some() && self.random.bool() {
                        sleep(Duration::from_millis(self.random.u64(50..900))).await;
                        self.renew(&thread, id).await;
                    }
                    sleep(Duration::from_millis(self.random.u64(10..2_000))).await;
                    if ttl.is_none() || self.random.u8(..3) > 0 {
                        self.close(&thread, &close, Some(id)).await;
                    }
                }
                6 => self.close(&thread, &close, None).await,
                _ => self.read(&thread).await,
            }
        }
    }

    async fn renew(&mut self, thread: &ThreadId, id: ElicitationId) {
        let sent = Instant::now();
        let command = Command::Renew { elicitation: ElicitationRef(id.to_string().into()), ttl: None };
        let (of, oracle) = (thread.clone(), self.world.oracle.clone());
        match self.call(move |replica| change(replica, of.clone(), command.clone())).await {
            Some(Ok(_)) => oracle.renewed(id, sent),
            Some(Err(Refusal::Expired { .. } | Refusal::Released { .. })) if !oracle.is_open(id) => {}
            Some(other) => oracle.violation(format!("I2: a renewal on {thread}: {other:?}")),
            None => {}
        }
    }

    /// Opens one elicitation on each thread from `from` to `to`, which stays open.
    pub(super) async fn settle(mut self, from: usize, to: usize) {
        for number in from..to {
            let thread = thread(number);
            self.open(&thread, &format!("resident-{number}"), None).await;
        }
    }

    /// Watches some threads at one replica after another, until `stop` is set.
    pub(super) async fn watch(mut self, threads: Vec<ThreadId>) {
        while !self.stop.load(SeqCst) {
            let oracle = self.world.oracle.clone();
            let (to, mut stream) = mpsc::channel(1);
            let asked: Vec<_> = threads.iter().map(|thread| oracle.asks(thread.as_str())).collect();
            let (me, place, pace, watched) = (self.number, self.at, self.pace, threads.clone());
            let open = move |replica: Arc<Replica>| async move {
                tokio::spawn(stream_to(replica.clone(), (me, pace), watched, asked, to));
                Some(())
            };
            let opened = timeout(ATTEMPT, self.world.ask(Node::Client(self.number), place, open)).await;
            if let Ok(Some(())) = opened {
                oracle.count("watches");
                while let Ok(Some((thread, told))) = timeout(SILENCE, stream.recv()).await {
                    oracle.watched(self.number, &thread, told);
                    // Sometimes a client moves to another replica.
                    if self.stop.load(SeqCst) || self.random.u16(..400) == 0 {
                        break;
                    }
                }
            }
            self.at = self.random.usize(..REPLICAS);
            sleep(Duration::from_millis(self.random.u64(0..200))).await;
        }
    }
}

async fn change(
    replica: Arc<Replica>,
    thread: ThreadId,
    command: Command,
) -> Option<pausewatch::test_support::coordinator::Outcome> {
    replica.change(thread, command).await
}

/// A stream of a replica: it starts when the replica has confirmed the latest state, and ends when its state is no
/// longer fresh.
async fn stream_to(
    replica: Arc<Replica>,
    (client, pace): (usize, Duration),
    threads: Vec<ThreadId>,
    mut asked: Vec<Asked>,
    to: mpsc::Sender<(String, Told)>,
) {
    let gate = replica.gate().clone();
    let (net, oracle) = (replica.world().net.clone(), replica.world().oracle.clone());
    let work = async move {
        if replica.leading.confirm().await.is_err() {
            return;
        }
        let mut sent: Vec<Option<(u64, Instant)>> = vec![None; threads.len()];
        while replica.leading.is_fresh() {
            for (i, thread) in threads.iter().enumerate() {
                let told = replica.show(thread);
                if sent[i].is_some_and(|(revision, at)| revision == told.revision && at.elapsed() < HEARTBEAT) {
                    continue;
                }
                sent[i] = Some((told.revision, Instant::now()));
                let who = format!("a stream of replica {}", replica.number);
                oracle.told(&who, thread.as_str(), told, asked[i], replica.reached());
                asked[i] = Asked { revision: told.revision, at: None };
                net.carry(Node::Replica(replica.number), Node::Client(client)).await;
                if to.send((thread.to_string(), told)).await.is_err() {
                    return;
                }
                if !replica.leading.is_fresh() {
                    break;
                }
            }
            sleep(pace).await;
        }
        oracle.count("streams that ended because the replica was not fresh");
    };
    let _ = super::machine::begin(&gate, work).await;
}
