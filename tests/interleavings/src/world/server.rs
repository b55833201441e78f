//! The server without its network: requests become commands of the real coordinator, and its results become responses.

use super::Moved;
use crate::clock::Clock;
use crate::coordinator::Coordinator;
use crate::coordinator::hub::{Hub, Shown};
use crate::coordinator::store::Memory;
use crate::core::Answer;
use crate::core::types::ThreadId;
use crate::proto::v1;
use crate::server::status;
use crate::server::wire::{self, ReadContext};
use std::sync::{Arc, atomic::AtomicUsize, atomic::Ordering::SeqCst};
use tonic::Status;

pub(crate) struct Server {
    coordinator: Coordinator,
    pub(crate) renewals: AtomicUsize,
}

impl Server {
    pub(crate) fn start() -> Arc<Self> {
        let fatal = |error| panic!("a memory store cannot fail: {error}");
        let coordinator = Coordinator::start(Box::new(Memory), Arc::new(Moved), None, fatal);
        Arc::new(Self { coordinator: coordinator.expect("there is nothing to load"), renewals: AtomicUsize::new(0) })
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        self.coordinator.hub()
    }

    /// The number of open elicitations of a thread, and its revision.
    pub(crate) fn state(&self, thread: &str) -> (usize, u64) {
        let view = self.hub().get(&id(thread));
        (view.open.len(), view.header.map_or(0, |header| header.revision))
    }

    pub(super) async fn increment(
        &self,
        request: v1::IncrementElicitationRequest,
    ) -> Result<v1::IncrementElicitationResponse, Status> {
        let (thread, command) = wire::increment(request).map_err(status::of_field)?;
        match self.coordinator.call(thread.clone(), command).await.map_err(|refusal| status::of(&refusal))? {
            Answer::Incremented { count, revision, elicitation, ends } => {
                let elicitation = Some(wire::elicitation(&thread, &elicitation, ends));
                Ok(v1::IncrementElicitationResponse { count, paused: true, revision, elicitation, watchers: 0 })
            }
            _ => Err(status::mixed_up()),
        }
    }

    pub(super) async fn decrement(
        &self,
        request: v1::DecrementElicitationRequest,
    ) -> Result<v1::DecrementElicitationResponse, Status> {
        let (thread, command) = wire::decrement(request, false).map_err(status::of_field)?;
        match self.coordinator.call(thread, command).await.map_err(|refusal| status::of(&refusal))? {
            Answer::Decremented { count, revision } => {
                Ok(v1::DecrementElicitationResponse { count, paused: count > 0, revision })
            }
            _ => Err(status::mixed_up()),
        }
    }

    pub(super) async fn renew(
        &self,
        request: v1::RenewElicitationRequest,
    ) -> Result<v1::RenewElicitationResponse, Status> {
        self.renewals.fetch_add(1, SeqCst);
        let (thread, command) = wire::renew(request).map_err(status::of_field)?;
        match self.coordinator.call(thread.clone(), command).await.map_err(|refusal| status::of(&refusal))? {
            Answer::Renewed { elicitation, ends } => {
                let elicitation = Some(wire::elicitation(&thread, &elicitation, ends));
                Ok(v1::RenewElicitationResponse { elicitation })
            }
            _ => Err(status::mixed_up()),
        }
    }
}

/// The store never loses its state here.
const EPOCH: u64 = 1;

/// A state as a stream sends it.
pub(super) fn told(thread: &ThreadId, known: Option<Shown<'_>>, floor: u64) -> v1::PauseState {
    wire::pause_state(thread, known, floor, false, ReadContext { now: Moved.now(), epoch: EPOCH })
}

pub(crate) fn id(text: &str) -> ThreadId {
    ThreadId::parse("thread_id", text).expect("a valid id")
}
