//! A store that takes long to load.
use super::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const LOADING: Duration = Duration::from_secs(5);

/// A clock of which 5 s pass between the first reading and the second one, in which the engine loads its store.
struct Loading {
    manual: Arc<Manual>,
    readings: AtomicUsize,
}

impl Clock for Loading {
    fn now(&self) -> Timestamp {
        if self.readings.fetch_add(1, Relaxed) == 1 {
            self.manual.advance(LOADING);
        }
        self.manual.now()
    }

    fn boot(&self) -> i64 {
        self.manual.boot()
    }

    fn awake(&self) -> Duration {
        self.manual.awake()
    }

    fn boot_id(&self) -> u64 {
        self.manual.boot_id()
    }
}

/// E3: a lease has its whole length after the start, and the time of loading is not taken for a sleep of the machine,
/// after which leases would restart once more.
#[test]
fn leases_restart_once_when_the_store_is_loaded() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let clock = clock();
    Rig::in_directory(directory.path(), clock.clone()).open("t", Some(30 * SECOND));
    let store = Embedded::open(directory.path(), clock.boot_id()).expect("the store is sound");
    let hub = Arc::<Hub>::default();
    let loading = Arc::new(Loading { manual: clock.clone(), readings: AtomicUsize::new(0) });
    let began = clock.now();
    let engine = Engine::new(Box::new(store), loading, None, &hub).expect("the store is sound");
    assert_eq!(clock.now().boot, began.after(LOADING).boot, "it was loading");
    let mut rig = Rig { engine, clock, hub };
    rig.clock.advance(SECOND);
    rig.turn();
    rig.clock.advance(29 * SECOND - Duration::from_nanos(1));
    rig.turn();
    assert_eq!(rig.count("t"), 1);
    rig.clock.advance(Duration::from_nanos(1));
    rig.turn();
    assert_eq!(rig.count("t"), 0);
}
