//! Clients that change, read and watch the same threads at the same time, and record what they observe. They repeat a
//! call with a request id until it is answered; a call without one is sent once.
use crate::history::{Outcome, Recorder, What};
use crate::linear::{decrement, increment};
use crate::service::{Id, Refusal, SECOND};
use crate::support::{Api, PATIENCE};
use fastrand::Rng;
use pausewatch::proto::v1;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::Endpoint;
use tonic::{Code, Status};
use tonic_types::StatusExt;
use v1::elicitation_service_client::ElicitationServiceClient;
use v1::watch_pause_state_response::Event;
use v1::watch_response;

/// The threads of a history, unless another history has used them before.
pub(crate) const THREADS: [&str; 2] = ["t", "u"];
/// Far longer than a history.
const TTL: Duration = Duration::from_secs(3_600);
/// A call that is not answered within this time is repeated.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// The time between two attempts: no event reports that the server is back.
const PAUSE: Duration = Duration::from_millis(5);

/// What the clients of one history share.
pub(crate) struct Shared {
    pub(crate) address: SocketAddr,
    /// Only two, so that calls interfere.
    pub(crate) threads: [&'static str; 2],
    pub(crate) record: Recorder,
    /// The ids that were returned, and the increments that they belong to.
    pub(crate) given: Mutex<Vec<(&'static str, String, Id)>>,
}

impl Shared {
    async fn connect(&self) -> Result<Api, Status> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).expect("an address");
        let channel = endpoint.timeout(ANSWERED_WITHIN).connect().await;
        Ok(Api(ElicitationServiceClient::new(channel.map_err(|error| Status::unavailable(error.to_string()))?)))
    }

    fn given(&self) -> std::sync::MutexGuard<'_, Vec<(&'static str, String, Id)>> {
        self.given.lock().expect("nothing panics while it holds the ids")
    }

    /// Records that an id belongs to an increment, and only to this one.
    fn is_given(&self, thread: &'static str, id: String, to: Id) {
        let mut given = self.given();
        let before = given.iter().find(|(_, known, number)| *known == id || *number == to).cloned();
        if before.is_none() {
            given.push((thread, id.clone(), to));
        }
        drop(given);
        let known = before.unwrap_or((thread, id.clone(), to));
        assert_eq!(known, (thread, id, to), "G4: an increment has one id, and an id one increment");
    }

    /// Translates a state into the terms of a history. The reason of each elicitation is the number of its increment.
    pub(crate) fn state(&self, thread: &'static str, state: v1::PauseState, whole: bool) -> Outcome {
        assert_eq!((state.paused, &*state.thread_id), (state.count > 0, thread));
        assert_eq!((state.pause_start_time.is_some(), state.paused_for.is_some()), (state.paused, state.paused));
        let open = state.elicitations.into_iter().map(|elicitation| {
            let number = elicitation.reason.parse().expect("the reason is a number");
            self.is_given(thread, elicitation.elicitation_id, number);
            number
        });
        let open = whole.then(|| open.collect());
        Outcome::State { count: state.count as usize, revision: state.revision, open }
    }
}

/// The refusal of the server; `None`: it did not answer, or could not store the change.
fn refusal(status: &Status) -> Option<Outcome> {
    let details = status.get_error_details();
    let reason = &details.error_info()?.reason;
    let refusals = HashMap::from([
        ("NO_OUTSTANDING_ELICITATION", Refusal::NoOutstanding),
        ("ELICITATION_UNKNOWN", Refusal::Unknown),
        ("ELICITATION_RELEASED", Refusal::Released),
        ("ELICITATION_EXPIRED", Refusal::Expired),
        ("REQUEST_ID_REUSED", Refusal::RequestIdReused),
        ("TOO_MANY_ELICITATIONS", Refusal::TooMany),
    ]);
    refusals.get(&**reason).copied().map(Outcome::Refused)
}

/// A client that makes random calls.
pub(crate) struct Caller {
    shared: Arc<Shared>,
    random: Rng,
    api: Option<Api>,
}

/// A call to be sent.
#[derive(Clone)]
enum Request {
    Increment(v1::IncrementElicitationRequest),
    Decrement(v1::DecrementElicitationRequest),
    Get(v1::GetPauseStateRequest),
    /// A read by a `confirm` request on a `Watch`.
    Confirm(v1::WatchRequest),
}

impl Caller {
    pub(crate) fn new(shared: Arc<Shared>, random: Rng) -> Self {
        Caller { shared, random, api: None }
    }

    pub(crate) async fn make(mut self, calls: usize) {
        for _ in 0..calls {
            self.make_one().await;
        }
    }

    async fn make_one(&mut self) {
        let thread = self.shared.threads[self.random.usize(..2)];
        let named = self.random.bool();
        let once = self.random.usize(..4) > 0;
        let request_id = |number: Id| if once { format!("request {number}") } else { String::new() };
        match self.random.usize(..10) {
            0..4 => {
                let ttl = self.random.bool().then_some(TTL);
                let call = increment(ttl.map(|ttl| ttl.as_secs() * SECOND));
                let number = self.shared.record.begin(thread, What::Change(call));
                let request = v1::IncrementElicitationRequest {
                    thread_id: thread.into(),
                    request_id: request_id(number),
                    reason: number.to_string(),
                    ttl: ttl.map(|ttl| prost_types::Duration::try_from(ttl).expect("an hour")),
                    ..Default::default()
                };
                self.send(thread, number, Request::Increment(request), once).await;
            }
            4..8 => {
                let given = self.shared.given().iter().filter(|(of, ..)| *of == thread).cloned().collect::<Vec<_>>();
                // The latest ones are most likely to be still open.
                let index = given.len().saturating_sub(1 + self.random.usize(..4));
                let chosen = given.get(index).filter(|_| named).cloned();
                let (id, which) = chosen.map(|(_, id, number)| (id, number)).unzip();
                let number = self.shared.record.begin(thread, What::Change(decrement(which)));
                let request = v1::DecrementElicitationRequest {
                    thread_id: thread.into(),
                    elicitation_id: id,
                    request_id: request_id(number),
                };
                self.send(thread, number, Request::Decrement(request), once).await;
            }
            _ => {
                let number = self.shared.record.begin(thread, What::Get);
                let request = match self.random.usize(..2) {
                    0 => Request::Get(v1::GetPauseStateRequest { thread_id: thread.into() }),
                    _ => {
                        let confirm = vec![thread.into()];
                        Request::Confirm(v1::WatchRequest { confirm, include_elicitations: true, ..Default::default() })
                    }
                };
                self.send(thread, number, request, true).await;
            }
        }
    }

    /// Sends a call until it is answered, or once; records the answer.
    async fn send(&mut self, thread: &'static str, number: Id, request: Request, again: bool) {
        let answered = tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some(answered) = self.try_once(thread, number, request.clone()).await {
                    return Some(answered);
                }
                // A request that could not be sent had no effect.
                if self.api.take().is_some() && !again {
                    return None;
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        if let Some(outcome) = answered.await.expect("the server is back soon, and answers") {
            self.shared.record.end(number, outcome);
        }
    }

    /// The answer, if there is one.
    async fn try_once(&mut self, thread: &'static str, number: Id, request: Request) -> Option<Outcome> {
        if self.api.is_none() {
            self.api = self.shared.connect().await.ok();
        }
        match request.send(self.api.as_mut()?, &self.shared, thread, number).await {
            Ok(outcome) => Some(outcome),
            Err(status) => {
                let lost = [Code::Unavailable, Code::Cancelled, Code::DeadlineExceeded, Code::Unknown, Code::Internal];
                let refused = refusal(&status);
                assert!(refused.is_some() || lost.contains(&status.code()), "{status:?}");
                refused
            }
        }
    }
}

impl Request {
    async fn send(self, api: &mut Api, shared: &Shared, thread: &'static str, number: Id) -> Result<Outcome, Status> {
        match self {
            Request::Increment(request) => {
                let answer = api.0.increment_elicitation(request).await?.into_inner();
                assert!(answer.paused);
                let opened = answer.elicitation.expect("an increment returns what it opened");
                assert_eq!((&*opened.thread_id, opened.reason), (thread, number.to_string()));
                shared.is_given(thread, opened.elicitation_id, number);
                Ok(Outcome::Changed { count: answer.count as usize, revision: answer.revision })
            }
            Request::Decrement(request) => {
                let answer = api.0.decrement_elicitation(request).await?.into_inner();
                assert_eq!(answer.paused, answer.count > 0);
                Ok(Outcome::Changed { count: answer.count as usize, revision: answer.revision })
            }
            Request::Get(request) => {
                let answer = api.0.get_pause_state(request).await?.into_inner();
                Ok(shared.state(thread, answer.pause_state.expect("a get returns the state"), true))
            }
            Request::Confirm(request) => {
                let mut stream = api.0.watch(tokio_stream::once(request)).await?.into_inner();
                loop {
                    match stream.message().await?.and_then(|message| message.event) {
                        Some(watch_response::Event::Confirmation(answer)) => {
                            let [state] = <[_; 1]>::try_from(answer.pause_states).expect("one state was asked for");
                            return Ok(shared.state(thread, state, true));
                        }
                        Some(watch_response::Event::Heartbeat(_)) => {}
                        other => panic!("unexpected event: {other:?}"),
                    }
                }
            }
        }
    }
}

/// How both threads are watched.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watch {
    /// By `WatchPauseState`.
    Fixed { whole: bool },
    /// By `Watch`: first one thread, then the other.
    Changing { whole: bool },
}

type States = Pin<Box<dyn Stream<Item = Result<v1::PauseState, Status>> + Send>>;

impl Watch {
    fn is_whole(self) -> bool {
        match self {
            Watch::Fixed { whole } | Watch::Changing { whole } => whole,
        }
    }

    async fn open(self, mut api: Api, threads: [&str; 2]) -> Result<States, Status> {
        let include_elicitations = self.is_whole();
        match self {
            Watch::Fixed { .. } => {
                let thread_ids = threads.map(str::to_owned).to_vec();
                let request = v1::WatchPauseStateRequest { thread_ids, include_elicitations, ..Default::default() };
                let messages = api.0.watch_pause_state(request).await?.into_inner();
                Ok(Box::pin(messages.filter_map(|message| match message.map(|message| message.event) {
                    Ok(Some(Event::PauseState(state))) => Some(Ok(state)),
                    Ok(_) => None,
                    Err(status) => Some(Err(status)),
                })))
            }
            Watch::Changing { .. } => {
                let add = |(i, thread): (usize, &str)| v1::WatchRequest {
                    add: vec![thread.to_owned()],
                    include_elicitations: include_elicitations && i == 0,
                    ..Default::default()
                };
                let requests: Vec<_> = threads.into_iter().enumerate().map(add).collect();
                let messages = api.0.watch(tokio_stream::iter(requests)).await?.into_inner();
                Ok(Box::pin(messages.filter_map(|message| match message.map(|message| message.event) {
                    Ok(Some(watch_response::Event::PauseState(state))) => Some(Ok(state)),
                    Ok(_) => None,
                    Err(status) => Some(Err(status)),
                })))
            }
        }
    }
}

/// Watches both threads, and again whenever a watch breaks, until it has seen the last revisions.
pub(crate) async fn watch(shared: Arc<Shared>, how: Watch, mut last: tokio::sync::watch::Receiver<Option<[u64; 2]>>) {
    let at_end = last.clone();
    let latest = [const { AtomicU64::new(0) }; 2];
    // A call that was never answered may take effect even later.
    let has_seen = |last: &Option<[u64; 2]>| last.is_some_and(|last| (0..2).all(|i| latest[i].load(SeqCst) >= last[i]));
    loop {
        let began = shared.record.now();
        let mut before = [None; 2];
        let watching = async {
            let mut states = how.open(shared.connect().await?, shared.threads).await?;
            while let Some(state) = states.next().await {
                let state = state?;
                let i = shared.threads.iter().position(|thread| *thread == state.thread_id).expect("it was asked for");
                latest[i].store(state.revision, SeqCst);
                let outcome = shared.state(shared.threads[i], state, how.is_whole());
                before[i] = Some(shared.record.seen(shared.threads[i], began, before[i], outcome));
                if has_seen(&at_end.borrow()) {
                    return Ok(());
                }
            }
            Err(Status::unavailable("the stream has ended"))
        };
        tokio::select! {
            ended = watching => if ended.is_ok() { return },
            // It may have seen them before it knew that they are the last ones.
            _ = last.wait_for(has_seen) => return,
        }
        tokio::time::sleep(PAUSE).await;
    }
}
