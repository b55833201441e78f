//! The RPCs of the fake.
use super::{Call, Fake, world::Opened};
use pausewatch::client::*;
use pausewatch::proto::v1::{
    Heartbeat, SnapshotComplete, WatchRequest, WatchResponse, elicitation_service_server::ElicitationService,
    watch_pause_state_response::Event as Wire,
};
use std::{collections::HashMap, pin::Pin, time::Duration};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt};

const HEARTBEAT: Duration = Duration::from_secs(15);

fn gone(why: &str) -> Status {
    let details = ErrorDetails::with_error_info(format!("ELICITATION_{why}"), "pausewatch", HashMap::new());
    Status::with_error_details(Code::NotFound, format!("the elicitation is {why}"), details)
}

fn ttl(wire: Option<prost_types::Duration>) -> Option<Duration> {
    wire.map(|ttl| ttl.try_into().unwrap())
}

impl Fake {
    fn enter(&self, rpc: &'static str, thread_id: &str, request_id: &str) -> Result<(), Status> {
        let at = self.0.began.elapsed();
        let (thread_id, request_id) = (thread_id.to_owned(), request_id.to_owned());
        self.seen().calls.push(Call { rpc, thread_id, request_id, at });
        self.0.world.lock().unwrap().expire();
        let mut script = self.script();
        if script.refuse.is_empty() { Ok(()) } else { Err(script.refuse.remove(0)) }
    }

    async fn answer<T>(&self, answer: T) -> Result<Response<T>, Status> {
        let lost = {
            let mut script = self.script();
            let lost = script.lose_answers > 0;
            script.lose_answers -= u32::from(lost);
            lost
        };
        self.0.answers_wait.subscribe().wait_for(|wait| !*wait).await.unwrap();
        if lost { Err(Status::unavailable("the answer was lost")) } else { Ok(Response::new(answer)) }
    }
}

#[tonic::async_trait]
impl ElicitationService for Fake {
    async fn increment_elicitation(
        &self,
        request: Request<IncrementElicitationRequest>,
    ) -> Result<Response<IncrementElicitationResponse>, Status> {
        let request = request.into_inner();
        self.enter("increment", &request.thread_id, &request.request_id)?;
        let opened = self.world(|world| {
            world.answered("increment", &request.thread_id, &request.request_id).unwrap_or_else(|| {
                let elicitation_id = world.open(&request.thread_id, ttl(request.ttl));
                let PauseState { count, revision, .. } = world.state(&request.thread_id);
                let opened = Opened { elicitation_id, count, revision };
                world.remember("increment", &request.thread_id, &request.request_id, &opened);
                opened
            })
        });
        let elicitation = Elicitation {
            elicitation_id: opened.elicitation_id,
            thread_id: request.thread_id,
            reason: request.reason,
            holder: request.holder,
            ..Elicitation::default()
        };
        let (count, revision) = (opened.count, opened.revision);
        let elicitation = Some(elicitation);
        self.answer(IncrementElicitationResponse { count, paused: true, revision, elicitation, watchers: 0 }).await
    }

    async fn decrement_elicitation(
        &self,
        request: Request<DecrementElicitationRequest>,
    ) -> Result<Response<DecrementElicitationResponse>, Status> {
        let request = request.into_inner();
        self.enter("decrement", &request.thread_id, &request.request_id)?;
        let id = request.elicitation_id.ok_or_else(|| Status::unimplemented("the fake wants an id"))?;
        let closed = self.world(|world| match world.answered("decrement", &request.thread_id, &request.request_id) {
            Some(closed) => Ok(closed),
            None => world.close(&request.thread_id, &id, "RELEASED").map(|()| {
                let PauseState { count, revision, .. } = world.state(&request.thread_id);
                let closed = Opened { elicitation_id: id, count, revision };
                world.remember("decrement", &request.thread_id, &request.request_id, &closed);
                closed
            }),
        });
        let Opened { count, revision, .. } = closed.map_err(gone)?;
        self.answer(DecrementElicitationResponse { count, paused: count > 0, revision }).await
    }

    async fn renew_elicitation(
        &self,
        request: Request<RenewElicitationRequest>,
    ) -> Result<Response<RenewElicitationResponse>, Status> {
        let request = request.into_inner();
        self.enter("renew", &request.thread_id, "")?;
        let renewed = self.world(|world| world.renew(&request.thread_id, &request.elicitation_id, ttl(request.ttl)));
        renewed.map_err(gone)?;
        self.answer(RenewElicitationResponse { elicitation: Some(Elicitation::default()) }).await
    }

    async fn get_pause_state(
        &self,
        request: Request<GetPauseStateRequest>,
    ) -> Result<Response<GetPauseStateResponse>, Status> {
        let thread_id = request.into_inner().thread_id;
        self.enter("get", &thread_id, "")?;
        let pause_state = Some(self.0.world.lock().unwrap().state(&thread_id));
        self.answer(GetPauseStateResponse { pause_state }).await
    }

    async fn list_pause_states(
        &self,
        request: Request<ListPauseStatesRequest>,
    ) -> Result<Response<ListPauseStatesResponse>, Status> {
        self.enter("list", "", &request.into_inner().page_token)?;
        self.answer(ListPauseStatesResponse::default()).await
    }

    type WatchPauseStateStream = Pin<Box<dyn Stream<Item = Result<WatchPauseStateResponse, Status>> + Send>>;

    async fn watch_pause_state(
        &self,
        request: Request<WatchPauseStateRequest>,
    ) -> Result<Response<Self::WatchPauseStateStream>, Status> {
        let thread_ids = request.into_inner().thread_ids;
        self.enter("watch", "", "")?;
        if thread_ids.iter().any(|id| self.script().refuse_watch_of.as_ref() == Some(id)) {
            return Err(Status::permission_denied("not this one"));
        }
        let (to, from) = mpsc::channel(1);
        self.seen().watches.push(thread_ids.len());
        self.seen().open_watches += 1;
        let fake = self.clone();
        tokio::spawn(async move {
            fake.feed(thread_ids, to).await;
            fake.seen().open_watches -= 1;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(from))))
    }

    type WatchStream = tokio_stream::Empty<Result<WatchResponse, Status>>;

    async fn watch(&self, _request: Request<Streaming<WatchRequest>>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("no test of the client uses it"))
    }
}

type Stream1 = mpsc::Sender<Result<WatchPauseStateResponse, Status>>;

impl Fake {
    /// Sends a snapshot and then what differs, until nobody listens.
    async fn feed(&self, thread_ids: Vec<String>, to: Stream1) -> Option<()> {
        let all = thread_ids.is_empty();
        let mut version = self.0.version.subscribe();
        let mut sent: HashMap<String, u64> = HashMap::new();
        let send = async |event| to.send(Ok(WatchPauseStateResponse { event: Some(event) })).await.ok();
        let mut complete = false;
        loop {
            version.borrow_and_update();
            let (changed, next_end) = {
                let mut world = self.0.world.lock().unwrap();
                let next_end = world.expire();
                let watched = if all { world.all() } else { thread_ids.clone() };
                let news = |id: &String| match sent.get(id) {
                    Some(revision) => *revision != world.revision(id),
                    None => !all || complete || world.state(id).paused,
                };
                let (changed, known): (Vec<_>, Vec<_>) = watched.into_iter().partition(news);
                sent.extend(known.into_iter().map(|id| (id.clone(), world.revision(&id))));
                (changed, next_end)
            };
            if !(complete && self.script().mute) {
                for id in changed {
                    // Read when it is sent: a slow reader gets the latest.
                    let state = PauseState { elicitations: Vec::new(), ..self.0.world.lock().unwrap().state(&id) };
                    sent.insert(id, state.revision);
                    send(Wire::PauseState(state)).await?;
                }
            }
            if !complete {
                complete = true;
                send(Wire::SnapshotComplete(SnapshotComplete::default())).await?;
                continue;
            }
            let silence =
                next_end.map_or(HEARTBEAT, |end| HEARTBEAT.min(end.duration_since(tokio::time::Instant::now())));
            tokio::select! {
                () = to.closed() => return None,
                change = timeout(silence, version.changed()) => {
                    if change.is_err() && !self.script().mute {
                        send(Wire::Heartbeat(Heartbeat {})).await?;
                    }
                }
            }
        }
    }
}
