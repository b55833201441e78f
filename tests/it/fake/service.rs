//! The RPCs of the fake.
use super::{Call, Fake, feed::Feed, world::Opened};
use pausewatch::client::*;
use pausewatch::proto::v1::{WatchRequest, WatchResponse, elicitation_service_server::ElicitationService};
use std::{collections::HashMap, time::Duration};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt};

fn gone(why: &str) -> Status {
    let details = ErrorDetails::with_error_info(format!("ELICITATION_{why}"), "pausewatch", HashMap::new());
    Status::with_error_details(Code::NotFound, format!("the elicitation is {why}"), details)
}

fn ttl(wire: Option<prost_types::Duration>) -> Option<Duration> {
    wire.map(|ttl| ttl.try_into().unwrap())
}

impl Fake {
    pub(super) fn enter(&self, rpc: &'static str, thread_id: &str, request_id: &str) -> Result<(), Status> {
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

    async fn list_pauses(&self, _request: Request<ListPausesRequest>) -> Result<Response<ListPausesResponse>, Status> {
        Err(Status::unimplemented("the fake keeps no history"))
    }

    type WatchPauseStateStream = tokio_stream::Empty<Result<WatchPauseStateResponse, Status>>;

    async fn watch_pause_state(
        &self,
        request: Request<WatchPauseStateRequest>,
    ) -> Result<Response<Self::WatchPauseStateStream>, Status> {
        let thread_ids = request.into_inner().thread_ids;
        self.enter("watch", "", "")?;
        if thread_ids.iter().any(|id| self.script().refuse_watch_of.as_ref() == Some(id)) {
            return Err(Status::permission_denied("not this one"));
        }
        Err(Status::unimplemented("the library watches by Watch"))
    }

    type WatchStream = ReceiverStream<Result<WatchResponse, Status>>;

    async fn watch(&self, request: Request<Streaming<WatchRequest>>) -> Result<Response<Self::WatchStream>, Status> {
        self.enter("watch", "", "")?;
        let (to, from) = mpsc::channel(1);
        let number = {
            let mut seen = self.seen();
            seen.open_watches += 1;
            seen.watches.push(0);
            seen.watches.len() - 1
        };
        let fake = self.clone();
        tokio::spawn(async move {
            Feed::new(fake.clone(), number, to).run(request.into_inner()).await;
            fake.seen().open_watches -= 1;
        });
        Ok(Response::new(ReceiverStream::new(from)))
    }
}
