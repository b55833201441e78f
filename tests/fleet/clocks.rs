//! The cluster clock across machines with unrelated clocks.
use crate::caller::Caller;
use crate::contract::config as fleet_config;
use crate::etcd::Etcd;
use crate::followers::serves;
use crate::support::{PATIENCE, Running, config, states};
use pausewatch::proto::v1;
use pausewatch::server::Server;
use pausewatch::test_support::clock::{Clock, System};
use pausewatch::test_support::core::Timestamp;
use pausewatch::test_support::etcd::{LeaderClock, ReplicaConfig};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The error that the design allows for one takeover.
const ERROR: Duration = Duration::from_millis(2);

/// A machine with a longer uptime than this one, and a wrong wall clock.
struct Machine {
    system: System,
    number: u64,
}

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        let (now, hour) = (self.system.now(), 3_600_000_000_000);
        let number = i64::try_from(self.number).expect("small");
        Timestamp { boot: now.boot + number * hour, wall: now.wall + number * 7_000_000_000 }
    }

    fn awake(&self) -> Duration {
        self.system.awake()
    }

    fn boot_id(&self) -> u64 {
        self.number
    }
}

/// What a replica knows of its leader's clock.
struct Heard {
    clock: Arc<LeaderClock>,
    machine: Arc<Machine>,
}

impl Heard {
    /// How exactly it knows that clock now, which depends on how soon the leader has answered.
    fn error(&self) -> Duration {
        Duration::from_nanos(self.clock.error(self.machine.boot()).unsigned_abs())
    }

    /// The error that the design allows, or more if the machine is too busy for it.
    fn tolerance(&self) -> Duration {
        ERROR.max(self.error())
    }

    /// Waits until it knows that clock within half of [`ERROR`].
    async fn is_exact(&self) {
        let give_up = Instant::now() + PATIENCE;
        while !self.clock.is_known() || self.error() >= ERROR / 2 {
            assert!(Instant::now() < give_up, "the leader's clock is known: {}", self.clock.is_known());
            sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn replica(etcd: &Etcd, prefix: &str, number: u64) -> (Running, Heard) {
    let fleet = fleet_config(etcd, prefix);
    let replica = ReplicaConfig { fleet, advertise: None, peer_ca: None };
    let machine = Arc::new(Machine { system: System::new(), number });
    let server = Server::start_replica(replica, machine.clone(), config()).await.expect("etcd runs");
    let heard = Heard { clock: server.leader_clock().expect("it is a replica").clone(), machine };
    (Running::of(server), heard)
}

fn total(state: &v1::PauseState) -> Duration {
    let total = state.paused_total.expect("there is one");
    Duration::new(total.seconds.unsigned_abs(), total.nanos.unsigned_abs())
}

/// I6, G3: the paused time of a thread is exact to [`ERROR`] over a takeover, although the new leader's boot-time clock is
/// an hour ahead, and its wall clock seven seconds.
#[tokio::test]
async fn a_takeover_by_another_machine_moves_no_paused_time() {
    let Some(etcd) = Etcd::shared() else { return };
    let (mut leading, _) = replica(etcd, "clocks", 1).await;
    let mut caller = Caller::new(std::slice::from_ref(&leading.address));
    caller.increment("a", "1").await;
    for number in 2..5 {
        let (next, heard) = replica(etcd, "clocks", number).await;
        heard.is_exact().await;
        let (before_first, before, after_first) = (Instant::now(), caller.get("a").await, Instant::now());
        let error = heard.tolerance();
        leading.stop().await.expect("no panic");
        caller = Caller::new(std::slice::from_ref(&next.address));
        let (before_second, after, after_second) = (Instant::now(), caller.get("a").await, Instant::now());
        assert_eq!((after.revision, after.store_epoch), (before.revision, before.store_epoch));
        let passed = total(&after).checked_sub(total(&before)).expect("it never falls");
        assert!(passed + error >= before_second - after_first, "{passed:?}");
        assert!(passed <= after_second - before_first + error, "{passed:?} in {:?}", after_second - before_first);
        leading = next;
    }
    assert_eq!(caller.decrement("a", "2").await.0, 0);
    leading.stop().await.expect("no panic");
}

/// I6, G3: the paused time that a follower shows is exact, although its clocks are unrelated to the leader's, and never
/// more than what the leader shows later.
#[tokio::test]
async fn a_follower_tells_paused_time_as_the_leader_does() {
    let Some(etcd) = Etcd::shared() else { return };
    let (leading, _) = replica(etcd, "told", 1).await;
    let caller = Caller::new(std::slice::from_ref(&leading.address));
    caller.increment("a", "0").await;
    let (following, heard) = replica(etcd, "told", 2).await;
    serves(&following.address).await;
    heard.is_exact().await;
    let mut follower = following.api().await;
    for round in 0..20 {
        let before_first = Instant::now();
        let first = caller.get("a").await;
        let after_first = Instant::now();
        let before = heard.tolerance();
        let told = states(&mut follower.watch(&["a"]).await).await.remove(0);
        let (error, after_second) = (before.max(heard.tolerance()), Instant::now());
        let then = caller.get("a").await;
        assert_eq!((told.revision, told.store_epoch), (first.revision, first.store_epoch));
        let passed = (total(&told) + error).checked_sub(total(&first)).expect("it began later");
        assert!(passed <= after_second - before_first + 2 * error, "round {round}: {passed:?}");
        assert!(total(&told) <= total(&then) + error, "round {round}: {:?} and later {:?}", total(&told), total(&then));
        // The watch began after the first state was read, and its state precedes the later read.
        assert!(total(&told) + error >= total(&first), "round {round}: in {:?}", after_first - before_first);
    }
    for running in [following, leading] {
        running.stop().await.expect("no panic");
    }
}
