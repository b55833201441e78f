//! A clock that the test controls: it can change in all ways in which a machine's clocks can.
use crate::service::Nanos;
use pausewatch::test_support::clock::Clock;
use pausewatch::test_support::core::Timestamp;
use std::sync::Mutex;
use std::time::Duration;

pub(crate) struct Hands(Mutex<Readings>);

struct Readings {
    now: Timestamp,
    awake: Duration,
    boot_id: u64,
}

impl Hands {
    pub(crate) const BEGINNING: Timestamp = Timestamp { boot: 1_000_000_000_000, wall: 1_800_000_000_000_000_000 };

    pub(crate) fn new() -> Self {
        Hands(Mutex::new(Readings { now: Self::BEGINNING, awake: Duration::ZERO, boot_id: 7 }))
    }

    fn turn(&self, turn: impl FnOnce(&mut Readings)) {
        turn(&mut self.0.lock().expect("nothing panics while it holds the hands"));
    }

    fn read<T>(&self, read: impl FnOnce(&Readings) -> T) -> T {
        read(&self.0.lock().expect("nothing panics while it holds the hands"))
    }

    pub(crate) fn advance(&self, by: Nanos) {
        self.sleep(by);
        self.turn(|hands| hands.awake += Duration::from_nanos(by));
    }

    pub(crate) fn sleep(&self, by: Nanos) {
        self.turn(|hands| hands.now = hands.now.after(Duration::from_nanos(by)));
    }

    pub(crate) fn set_wall(&self, by: i64) {
        self.turn(|hands| hands.now.wall += by);
    }

    /// The machine boots: only the wall clock continues.
    pub(crate) fn reboot(&self) {
        self.turn(|hands| {
            (hands.now.boot, hands.awake) = (3_000_000_000, Duration::ZERO);
            hands.boot_id += 1;
        });
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        self.read(|hands| hands.now)
    }

    fn awake(&self) -> Duration {
        self.read(|hands| hands.awake)
    }

    fn boot_id(&self) -> u64 {
        self.read(|hands| hands.boot_id)
    }
}
