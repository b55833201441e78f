//! Which replica a client uses, and the channel to it.
//!
//! 1. All clones of a client share one channel: a move by one clone moves all of them.
//! 2. If several callers fail at one replica, the client moves only once: a move names the position that it leaves.
//! 3. A client with one address never moves.
use super::lanes::{Lanes, Place, stub};
pub(super) use super::lanes::{Position, Stub};
use super::{Address, Config, ConfigError, connect};
use std::time::Duration;
use tokio::sync::watch;
use tonic::transport::Channel;

/// How long a replica may take to answer before the next one is asked: longer than a takeover.
const NO_ANSWER: Duration = Duration::from_millis(1_500);

#[derive(Debug)]
pub(super) struct Route {
    /// In random order. Empty: the channel is the caller's own.
    addresses: Vec<Address>,
    config: Config,
    position: watch::Sender<Position>,
    lanes: Lanes,
}

impl Route {
    /// A route over the addresses of `config` in random order, so that clients are distributed evenly over the
    /// replicas.
    pub(super) fn new(config: &Config) -> Result<Self, ConfigError> {
        let mut addresses = config.address.each().to_vec();
        if addresses.len() > 1 {
            fastrand::shuffle(&mut addresses);
        }
        let stub = stub(connect::channel(&addresses[0], config)?);
        let position = watch::Sender::new(Position { moves: 0, stub });
        Ok(Self { addresses, config: config.clone(), position, lanes: Lanes::default() })
    }

    /// A route over one channel.
    pub(super) fn over(channel: Channel) -> Self {
        let position = watch::Sender::new(Position { moves: 0, stub: stub(channel) });
        Self { addresses: Vec::new(), config: Config::default(), position, lanes: Lanes::default() }
    }

    /// The number of addresses.
    pub(super) fn len(&self) -> usize {
        self.addresses.len().max(1)
    }

    /// The timeout for an answer, also for the first message of a stream; `None`: there is no other replica to try.
    pub(super) fn no_answer(&self) -> Option<Duration> {
        (self.len() > 1).then_some(NO_ANSWER)
    }

    pub(super) fn position(&self) -> Position {
        self.position.borrow().clone()
    }

    /// A position for a stream, on the connection of the calls or beside it, for as long as the place is kept.
    pub(super) fn position_of_stream(&self) -> (Position, Place) {
        self.lanes.place(self.position(), |position| self.separate(position))
    }

    /// Notifies of every move.
    pub(super) fn moves(&self) -> watch::Receiver<Position> {
        self.position.subscribe()
    }

    /// Moves to the next address, unless the client has moved since `moves`. Returns whether there is another address.
    pub(super) fn move_on(&self, moves: usize) -> bool {
        if self.len() < 2 {
            return false;
        }
        self.position.send_if_modified(|position| {
            let next = &self.addresses[(moves + 1) % self.len()];
            // Cannot fail: the same settings have made a channel before.
            let Some(channel) = connect::channel(next, &self.config).ok().filter(|_| position.moves == moves) else {
                return false;
            };
            tracing::debug!(address = %next, "going on at the next address");
            *position = Position { moves: moves + 1, stub: stub(channel) };
            true
        });
        true
    }

    /// A separate channel to the present address; the caller's own channel if it has one.
    pub(super) fn separate(&self, position: &Position) -> Stub {
        let address = self.addresses.get(position.moves % self.len());
        let channel = address.and_then(|address| connect::channel(address, &self.config).ok());
        channel.map_or_else(|| position.stub.clone(), stub)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn those_who_fail_at_one_replica_move_once() {
        let address = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3".parse().unwrap();
        let route = Route::new(&Config { address, ..Config::default() }).unwrap();
        assert!(route.move_on(0) && route.move_on(0));
        assert_eq!(route.position().moves, 1);
        assert!(route.move_on(1) && route.move_on(2) && route.move_on(3));
        assert_eq!(route.position().moves, 4);
        let alone = Route::new(&Config::default()).unwrap();
        assert!(!alone.move_on(0) && alone.position().moves == 0);
    }

    #[tokio::test]
    async fn every_client_begins_at_a_random_address() {
        let address: Address = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3".parse().unwrap();
        let config = Config { address: address.clone(), ..Config::default() };
        fastrand::seed(7);
        let orders: Vec<_> = (0..100).map(|_| Route::new(&config).unwrap().addresses).collect();
        for first in address.each() {
            assert!(orders.iter().any(|order| order[0] == *first), "{first} is never the first one");
        }
        fastrand::seed(7);
        assert_eq!(Route::new(&config).unwrap().addresses, orders[0]);
    }
}
