//! The maximum length of a pause, for everything that moves the end of a lease (E5).
use super::*;
use pausewatch::test_support::coordinator::Settings;

const MAX: Duration = Duration::from_secs(100);

fn capped(store: impl Store, clock: Arc<Manual>) -> Rig {
    let hub = Arc::<Hub>::default();
    let settings = Settings { max_pause: Some(MAX), anonymous_ttl: Some(24 * HOUR), ..Settings::default() };
    let engine = Engine::with(Box::new(store), clock.clone(), settings, &hub).expect("the store is sound");
    Rig { engine, clock, hub }
}

/// The latest end of a lease.
fn last_end(rig: &Rig) -> Option<i64> {
    rig.view("t").open.iter().filter_map(|open| Some(open.ends?.boot)).max()
}

fn is_capped(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Refusal::Capped { .. }))
}

/// G2. If one case did not cut the lease, the thread would stay paused.
#[test]
fn g2_a_pause_ends_at_its_maximum_though_it_is_renewed() {
    for mut rig in [capped(Memory, clock()), capped(Obedient::default(), clock())] {
        let began = rig.clock.now();
        let ids = [rig.open("t", Some(60 * SECOND)).0, rig.open("t", None).0];
        rig.clock.advance(50 * SECOND);
        rig.call("t", renew(&ids[0])).expect("it is open");
        rig.call("t", renew_for(&ids[1], HOUR)).expect("it is open");
        assert_eq!(last_end(&rig), Some(began.after(MAX).boot));
        rig.clock.advance(50 * SECOND - Duration::from_nanos(1));
        rig.turn();
        assert_eq!(rig.count("t"), 2);
        rig.clock.advance(Duration::from_nanos(1));
        rig.turn();
        assert_eq!((rig.count("t"), rig.paused_total("t")), (0, MAX));
        assert!(ids.iter().all(|id| is_capped(&rig.call("t", renew(id)))));
        rig.open("t", Some(HOUR));
        assert_eq!(last_end(&rig), Some(rig.clock.now().after(MAX).boot), "the next pause has its own maximum");
    }
}

#[test]
fn g2_neither_a_restart_nor_a_sleep_nor_a_stall_extends_a_pause_beyond_its_maximum() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = clock();
    let open = || Embedded::open(directory.path(), clock.boot_id()).expect("the store is sound");
    let mut rig = capped(open(), clock.clone());
    let began = rig.clock.now();
    let (id, _) = rig.open("t", Some(60 * SECOND));
    rig.clock.advance(50 * SECOND);
    drop(rig);
    let mut rig = capped(open(), clock.clone());
    assert_eq!(last_end(&rig), Some(began.after(MAX).boot), "after a restart");
    rig.clock.sleep(10 * SECOND);
    rig.turn();
    assert_eq!(last_end(&rig), Some(began.after(MAX).boot), "after a sleep");
    let mut committed = Vec::new();
    rig.engine.extend_leases(70 * SECOND, &mut committed);
    rig.hub.publish(committed);
    assert_eq!(last_end(&rig), Some(began.after(MAX).boot), "after a stall");
    drop(rig);
    // The server is down for longer than the rest of the pause.
    clock.advance(HOUR);
    let mut rig = capped(open(), clock.clone());
    rig.turn();
    assert_eq!(rig.count("t"), 0);
    assert!(is_capped(&rig.call("t", renew(&id))));
    drop(rig);
    let mut rig = Rig::in_directory(directory.path(), clock.clone());
    assert!(is_capped(&rig.call("t", decrement(Some(&id)))), "also after a restart without a maximum");
}

#[test]
fn a_server_with_a_maximum_cuts_the_leases_that_one_without_it_gave() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = clock();
    let mut rig = Rig::in_directory(directory.path(), clock.clone());
    let began = rig.clock.now();
    rig.open("t", Some(HOUR));
    drop(rig);
    let store = Embedded::open(directory.path(), clock.boot_id()).expect("the store is sound");
    assert_eq!(last_end(&capped(store, clock)), Some(began.after(MAX).boot));
}
