//! Spreads the streams of a client over several connections.
//!
//! A server allows a number of streams on a connection (1,024), and HTTP/2 libraries queue further calls without an
//! error: beside that many watches, renewals would wait, and leases would end. So the connection of the calls has a part
//! of them at most, and further watches share connections of their own.
use super::not_grpc::{GrpcChannel, checked};
use crate::proto::v1::elicitation_service_client::ElicitationServiceClient;
use std::sync::{Arc, Mutex, PoisonError};
use tonic::transport::Channel;

/// The maximum of streams on each connection.
const STREAMS: usize = 256;

pub(super) type Stub = ElicitationServiceClient<GrpcChannel>;

pub(super) fn stub(channel: Channel) -> Stub {
    Stub::new(checked(channel))
}

/// The current replica: the number of moves so far, and the channel since the last move.
#[derive(Debug, Clone)]
pub(super) struct Position {
    pub(super) moves: usize,
    pub(super) stub: Stub,
}

/// The connections that have streams.
#[derive(Debug, Default)]
pub(super) struct Lanes(Mutex<Vec<Lane>>);

#[derive(Debug)]
struct Lane {
    /// Its position, and whether its connection is that of the calls.
    moves: usize,
    is_shared: bool,
    stub: Stub,
    /// Each of its streams has a clone.
    streams: Arc<()>,
}

/// A stream's place; dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place(#[expect(dead_code, reason = "it is counted")] Arc<()>);

impl Lane {
    fn len(&self) -> usize {
        Arc::strong_count(&self.streams) - 1
    }
}

impl Lanes {
    /// A place on a connection at this position. `separate` makes another connection there.
    pub(super) fn place(&self, position: Position, separate: impl FnOnce(&Position) -> Stub) -> (Position, Place) {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|lane| lane.len() > 0);
        let here = |lane: &&Lane| lane.moves == position.moves;
        let is_taken = lanes.iter().filter(here).any(|lane| lane.is_shared);
        let free = lanes.iter().filter(here).find(|lane| lane.len() < STREAMS);
        if is_taken && let Some(lane) = free {
            return (Position { stub: lane.stub.clone(), ..position }, Place(lane.streams.clone()));
        }
        let stub = if is_taken { separate(&position) } else { position.stub.clone() };
        let lane = Lane { moves: position.moves, is_shared: !is_taken, stub: stub.clone(), streams: Arc::default() };
        let place = Place(lane.streams.clone());
        lanes.push(lane);
        (Position { stub, ..position }, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Address, Config, connect};
    use std::cell::Cell;

    #[tokio::test]
    async fn hundreds_of_streams_are_spread_over_connections() {
        let stub = || stub(connect::channel(&Address::default(), &Config::default()).expect("a channel"));
        let (lanes, made) = (Lanes::default(), Cell::new(0));
        let place = |moves| {
            let separate = |_: &Position| {
                made.set(made.get() + 1);
                stub()
            };
            lanes.place(Position { moves, stub: stub() }, separate).1
        };
        let mut places: Vec<_> = (0..3 * STREAMS).map(|_| place(0)).collect();
        assert_eq!(made.get(), 2, "the first ones are on the connection of the calls");
        places.truncate(STREAMS + 1);
        places.push(place(0));
        assert_eq!(made.get(), 2, "free places are taken");
        drop(places.drain(..STREAMS));
        places.push(place(0));
        assert_eq!(made.get(), 2, "the connection of the calls first");
        places.push(place(1));
        assert_eq!((made.get(), lanes.0.lock().unwrap().len()), (2, 3), "each address has its own");
    }
}
