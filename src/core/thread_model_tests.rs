//! Random commands, compared with a model of the thread.
use super::*;

/// A few thousand random commands, compared with a model that is a list of ids. The seed is fixed, so a run can be
/// repeated.
#[test]
fn random_commands_keep_to_the_model() {
    let mut random = Random(0x5eed_0001);
    let mut world = World::new();
    // The open ones, oldest first: id, whether it has no ttl, the end of its lease.
    let mut model: Vec<(String, bool, i64)> = Vec::new();
    let (mut paused, mut revision) = (Duration::ZERO, 0);
    for step in 0..5_000 {
        let some = (!model.is_empty()).then(|| random.below(model.len().max(1) as u64) as usize);
        match (random.below(10), some) {
            (0..4, _) => {
                let ttl = (random.below(2) == 0).then(|| seconds(1 + random.below(20)));
                let id = world.opened(ttl);
                let ends = world.now.after(ttl.unwrap_or(24 * HOUR)).boot;
                model.push((id, ttl.is_none(), ends));
                revision += 1;
            }
            (4..6, _) => {
                let place = model.iter().position(|(_, anonymous, _)| *anonymous).or((!model.is_empty()).then_some(0));
                revision += u64::from(place.is_some());
                assert_eq!(world.close("", None).is_ok(), place.is_some(), "step {step}");
                place.map(|place| model.remove(place));
            }
            (6, Some(i)) => {
                let (id, ..) = model.remove(i);
                revision += 1;
                assert_eq!(world.close("", Some(&id)), Ok((model.len() as u32, revision)), "step {step}");
                assert!(matches!(world.close("", Some(&id)), Err(Refusal::Released { .. })), "step {step}");
            }
            (7, Some(i)) => {
                let ttl = seconds(1 + random.below(20));
                world.renew(&model[i].0, Some(ttl)).expect("it is open");
                model[i].2 = world.now.after(ttl).boot;
            }
            _ => {
                let span = Duration::from_millis(random.below(3_000));
                paused += if model.is_empty() { Duration::ZERO } else { span };
                world.pass(span);
                for (id, ..) in model.extract_if(.., |(_, _, ends)| *ends <= world.now.boot).collect::<Vec<_>>() {
                    world.expire(&id).expect("its lease has ended");
                    revision += 1;
                }
            }
        }
        assert_eq!(world.ids(), model.iter().map(|(id, ..)| id.clone()).collect::<Vec<_>>(), "step {step}");
        assert_eq!(world.record.header.revision, revision, "step {step}");
        assert_eq!(world.record.header.pause.total(world.now), paused, "step {step}");
    }
}

/// SplitMix64: the same numbers for the same seed on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
