//! One `Watch` of the fake: its requests are answered one after another, and changes are sent in between.
use super::{Call, Fake};
use pausewatch::client::PauseState;
use pausewatch::proto::v1::{
    Confirmation, Heartbeat, Refusal, SnapshotComplete, WatchRequest, WatchResponse, watch_response::Event,
};
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};
use tokio::{sync::mpsc, time::timeout};
use tonic::{Code, Status, Streaming};

const HEARTBEAT: Duration = Duration::from_secs(15);

pub(super) struct Feed {
    fake: Fake,
    /// Its index in what the fake has recorded.
    stream: usize,
    to: mpsc::Sender<Result<WatchResponse, Status>>,
    all: bool,
    include_elicitations: bool,
    /// Whether a request was accepted.
    accepted: bool,
    threads: BTreeSet<String>,
    /// The revision that was last sent, per thread.
    sent: HashMap<String, u64>,
    requests: u64,
}

impl Feed {
    pub(super) fn new(fake: Fake, stream: usize, to: mpsc::Sender<Result<WatchResponse, Status>>) -> Self {
        let (all, include_elicitations, accepted, threads, sent, requests) = Default::default();
        Self { fake, stream, to, all, include_elicitations, accepted, threads, sent, requests }
    }

    async fn send(&self, event: Event) -> Option<()> {
        self.to.send(Ok(WatchResponse { event: Some(event) })).await.ok()
    }

    /// Runs until the client has gone.
    pub(super) async fn run(mut self, mut requests: Streaming<WatchRequest>) -> Option<()> {
        let mut version = self.fake.0.version.subscribe();
        loop {
            version.borrow_and_update();
            let next_end = self.fake.0.world.lock().unwrap().expire();
            if !self.fake.script().mute {
                self.send_changes().await?;
            }
            let interval = self.fake.script().interval;
            let every = interval.map_or(HEARTBEAT, |interval| interval.min(HEARTBEAT));
            let silence = next_end.map_or(every, |end| every.min(end.duration_since(tokio::time::Instant::now())));
            let to = self.to.clone();
            tokio::select! {
                () = to.closed() => return None,
                request = requests.message() => self.answer(request.ok()??).await?,
                change = timeout(silence, version.changed()) => {
                    if change.is_err() && !self.fake.script().mute {
                        let interval = interval.map(|every| every.try_into().unwrap());
                        self.send(Event::Heartbeat(Heartbeat { interval })).await?;
                    }
                }
            }
        }
    }

    async fn send_changes(&mut self) -> Option<()> {
        let changed: Vec<_> = {
            let world = self.fake.0.world.lock().unwrap();
            let watched: Vec<_> = if self.all { world.all() } else { self.threads.iter().cloned().collect() };
            watched.into_iter().filter(|id| self.sent.get(id) != Some(&world.revision(id))).collect()
        };
        for id in changed {
            self.send_state(id).await?;
        }
        Some(())
    }

    async fn send_state(&mut self, id: String) -> Option<()> {
        // A slow reader gets the latest state: it is read when there is space for it.
        let permit = self.to.reserve().await.ok()?;
        let state = self.fake.0.world.lock().unwrap().state(&id);
        self.sent.insert(id, state.revision);
        let elicitations = if self.include_elicitations { state.elicitations.clone() } else { Vec::new() };
        let event = Some(Event::PauseState(PauseState { elicitations, ..state }));
        permit.send(Ok(WatchResponse { event }));
        Some(())
    }

    async fn answer(&mut self, request: WatchRequest) -> Option<()> {
        self.requests += 1;
        let forbidden = self.fake.script().refuse_watch_of.clone();
        let thread_ids: Vec<_> =
            request.add.iter().chain(&request.confirm).filter(|id| Some(*id) == forbidden.as_ref()).cloned().collect();
        self.note(&request);
        if !thread_ids.is_empty() {
            let (reason, message) = ("THREAD_FORBIDDEN".to_owned(), "not this one".to_owned());
            let (request, code) = (self.requests, Code::PermissionDenied as i32);
            return self
                .send(Event::Refusal(Refusal { request, code, reason, message, thread_ids, retry_after: None }))
                .await;
        }
        let limited = {
            let mut script = self.fake.script();
            let limited = script.limit_requests > 0;
            script.limit_requests -= u32::from(limited);
            limited
        };
        if limited {
            let (reason, message) = ("LIMIT_EXCEEDED".to_owned(), "too many".to_owned());
            let (request, code) = (self.requests, Code::ResourceExhausted as i32);
            let retry_after = Some(prost_types::Duration { seconds: 1, nanos: 0 });
            return self
                .send(Event::Refusal(Refusal { request, code, reason, message, thread_ids: vec![], retry_after }))
                .await;
        }
        if std::mem::replace(&mut self.accepted, true) && (request.all_threads || request.include_elicitations) {
            let late = Status::invalid_argument("set in a later request than the first that is not refused");
            self.to.send(Err(late)).await.ok()?;
            return None;
        }
        self.include_elicitations |= request.include_elicitations;
        request.remove.iter().for_each(|id| _ = self.threads.remove(id));
        self.threads.extend(request.add.iter().cloned());
        self.fake.seen().watched = self.threads.iter().cloned().collect();
        if request.all_threads {
            self.all = true;
            let world = self.fake.0.world.lock().unwrap();
            // Running threads are not in the snapshot, unless they are named.
            let known = world.all().into_iter().filter(|id| !world.state(id).paused);
            self.sent = known.map(|id| (id.clone(), world.revision(&id))).collect();
        }
        for id in request.add {
            self.send_state(id).await?;
        }
        if request.all_threads {
            self.send_changes().await?;
        }
        if !request.confirm.is_empty() {
            let pause_states = {
                let world = self.fake.0.world.lock().unwrap();
                request.confirm.iter().map(|id| world.state(id)).collect()
            };
            let mut wait = self.fake.0.answers_wait.subscribe();
            tokio::select! {
                () = self.to.closed() => return None,
                waited = wait.wait_for(|wait| !*wait) => drop(waited.ok()?),
            }
            self.send(Event::Confirmation(Confirmation { pause_states })).await?;
        }
        self.send(Event::SnapshotComplete(SnapshotComplete { requests: self.requests })).await
    }

    fn note(&self, request: &WatchRequest) {
        let at = self.fake.0.began.elapsed();
        let mut seen = self.fake.seen();
        seen.watches[self.stream] += request.add.len();
        let sizes = [request.add.len(), request.confirm.len()];
        seen.largest_request = seen.largest_request.max(sizes[0] + request.remove.len() + sizes[1]);
        seen.requests.push(sizes);
        let asked = |id: &String| Call { rpc: "confirm", thread_id: id.clone(), request_id: String::new(), at };
        seen.calls.extend(request.confirm.iter().map(asked));
    }
}
