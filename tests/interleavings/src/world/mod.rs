//! The surroundings of the sources: a server without a network, a client of it, and the time.
pub(crate) mod client;
pub(crate) mod server;
pub(crate) mod watch;

use crate::clock::Clock;
use crate::core::Timestamp;
use std::time::Duration;

pub(crate) const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The time that the cases advance, as the server's clock.
#[derive(Debug)]
pub(crate) struct Moved;

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.awake().as_nanos()).expect("a case takes less than 292 years");
        Timestamp { boot: passed, wall: passed }
    }

    fn awake(&self) -> Duration {
        tokio::time::passed()
    }

    fn boot_id(&self) -> u64 {
        1
    }
}
