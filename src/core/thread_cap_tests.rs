//! The maximum length of a pause.
use super::*;

fn capped(max_pause: Duration) -> World {
    World { max_pause: Some(max_pause), ..World::new() }
}

/// G2: without the cap, a holder that renews keeps a thread paused forever.
#[test]
fn g2_no_renewal_extends_a_pause_beyond_its_maximum() {
    let mut world = capped(seconds(10));
    let first = world.opened(Some(seconds(4)));
    world.pass(seconds(3));
    let second = world.opened(Some(seconds(4)));
    assert_eq!(world.renew(&first, None), Ok(Some(seconds(4))));
    world.pass(seconds(4));
    assert_eq!(world.renew(&first, None), Ok(Some(seconds(3))), "it must be cut, but keep its length");
    assert_eq!(
        world.renew(&second, Some(seconds(60))),
        Ok(Some(seconds(3))),
        "the maximum must count from the first elicitation"
    );
    let third = world.opened(None);
    world.pass(seconds(3));
    for id in [&first, &second, &third] {
        world.expire(id).expect("its thread was paused for 10 s");
        assert!(matches!(world.close("", Some(id)), Err(Refusal::Capped { ago_ms: 0, .. })));
        assert!(matches!(world.renew(id, None), Err(Refusal::Capped { .. })));
    }
    assert_eq!(world.record.header.pause.total(world.now), seconds(10));
}

#[test]
fn a_lease_that_ends_before_the_maximum_is_expired_and_the_next_pause_counts_from_its_own_beginning() {
    let mut world = capped(seconds(10));
    let id = world.opened(Some(seconds(9)));
    world.pass(seconds(9));
    world.expire(&id).expect("its lease has ended");
    assert!(matches!(world.renew(&id, None), Err(Refusal::Expired { .. })));
    let next = world.opened(Some(seconds(60)));
    assert_eq!(world.renew(&next, None), Ok(Some(seconds(10))));
    world.close("", Some(&next)).expect("a decrement before the end");
    assert!(matches!(world.renew(&next, None), Err(Refusal::Released { .. })));
}

#[test]
fn without_a_default_lease_the_maximum_is_the_lease() {
    let mut world = capped(seconds(10));
    world.anonymous_ttl = None;
    let id = world.opened(None);
    world.pass(seconds(10));
    world.expire(&id).expect("it cannot last longer");
    assert!(matches!(world.renew(&id, None), Err(Refusal::Capped { .. })));
}
