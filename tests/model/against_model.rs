//! Runs a system and the model through the same steps, and compares every answer and, after every step, everything that
//! a reader sees.
use crate::hands::Hands;
use crate::service::{self, Nanos};
use crate::steps::{NAMES, State, Step, Steps};
use crate::system::{Durable, Forgetful, Lengths, Rules, System};
use pausewatch::test_support::clock::Clock;
use pausewatch::test_support::coordinator::Outcome;
use pausewatch::test_support::core::types::{ElicitationId, ThreadId, Ttl};
use pausewatch::test_support::core::{Answer, Command, ElicitationRef, PauseEnd, Refusal};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// A system, and its ids by the numbers that the model uses.
struct Tested<S> {
    system: S,
    ids: Vec<ElicitationId>,
    /// The boot-time clock minus the time of the model.
    boot_ahead: i64,
}

fn thread(name: &str) -> ThreadId {
    ThreadId::parse("thread_id", name).expect("a valid id")
}

fn ttl(length: Option<Nanos>) -> Option<Ttl> {
    length.map(|length| Ttl::new("ttl", Duration::from_nanos(length)).expect("within the limits"))
}

fn text(number: impl ToString) -> Box<str> {
    number.to_string().into()
}

impl<S: System> Tested<S> {
    fn named(&self, id: service::Id) -> ElicitationRef {
        ElicitationRef(self.ids.get(id).map_or("an id that was never given".into(), text))
    }

    fn command(&self, call: &service::Call) -> Command {
        let request = |id: Option<u16>| id.map_or("".into(), text);
        match *call {
            service::Call::Increment { request_id, reason, holder, ttl: length } => Command::Increment {
                request_id: request(request_id),
                reason: text(reason),
                holder: text(holder),
                ttl: ttl(length),
            },
            service::Call::Decrement { request_id, elicitation, by_admin } => Command::Decrement {
                request_id: request(request_id),
                elicitation: elicitation.map(|id| self.named(id)),
                by_admin,
            },
            service::Call::Renew { elicitation, ttl: length } => {
                Command::Renew { elicitation: self.named(elicitation), ttl: ttl(length) }
            }
        }
    }

    /// The number of an id; a new one gets the next number.
    fn number(&mut self, id: ElicitationId) -> service::Id {
        self.ids.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.ids.push(id);
            self.ids.len() - 1
        })
    }

    /// Translates an outcome into the model's terms.
    fn outcome(&mut self, outcome: Outcome) -> Result<Said, service::Refusal> {
        match outcome {
            Ok(Answer::Incremented { count, revision, elicitation, ends }) => {
                let id = self.number(elicitation.id);
                Ok(Said::Opened(count as usize, revision, id, elicitation.created.wall, ends.map(|ends| ends.wall)))
            }
            Ok(Answer::Decremented { count, revision }) => Ok(Said::Closed(count as usize, revision)),
            Ok(Answer::Renewed { elicitation, ends }) => {
                Ok(Said::Renewed(self.number(elicitation.id), ends.map(|ends| ends.wall)))
            }
            Err(Refusal::RequestIdReused { .. }) => Err(service::Refusal::RequestIdReused),
            Err(Refusal::NoOutstanding { .. }) => Err(service::Refusal::NoOutstanding),
            Err(Refusal::Unknown { .. }) => Err(service::Refusal::Unknown),
            Err(Refusal::Released { .. }) => Err(service::Refusal::Released),
            Err(Refusal::Expired { .. }) => Err(service::Refusal::Expired),
            Err(Refusal::Capped { .. }) => Err(service::Refusal::Capped),
            Err(Refusal::TooMany { .. }) => Err(service::Refusal::TooMany),
            Err(other) => panic!("unexpected error: {other}"),
        }
    }

    /// Lets the system do what is due up to `until`, each at its time.
    fn work_until(&mut self, until: i64) {
        let mut turns = 0;
        while self.system.next_due() <= until {
            let wait = self.system.next_due().saturating_sub(self.system.clock().now().boot);
            turns = if wait > 0 { 0 } else { turns + 1 };
            assert!(turns < 10, "something is due, but is not done");
            self.system.clock().advance(wait.max(0).unsigned_abs());
            self.system.process(&[]);
        }
        let rest = until - self.system.clock().now().boot;
        self.system.clock().advance(rest.unsigned_abs());
    }

    fn call(&mut self, step: &Step, expected: &[Result<service::Answer, service::Refusal>]) {
        let mut outcomes = Vec::new();
        for batch in step.batches() {
            let calls = batch.iter().map(|(name, call)| (thread(name), self.command(call)).into()).collect::<Vec<_>>();
            outcomes.extend(self.system.process(&calls));
        }
        for (outcome, expected) in outcomes.into_iter().zip(expected) {
            assert_eq!(self.outcome(outcome), expected.clone().map(said));
        }
    }

    fn compare(&self, model: &service::Service) {
        let now = self.system.clock().now();
        assert_eq!((now.boot - self.boot_ahead, now.wall), (model.now.at as i64, model.now.wall), "the test's clocks");
        for name in NAMES {
            let (view, expected) = (self.system.view(&thread(name)), model.threads.get(name));
            assert_eq!(view.floor, model.floor, "{name}: the floor");
            assert_eq!(view.header.is_some(), expected.is_some(), "{name}: whether it is known");
            let (Some(header), Some(expected)) = (view.header, expected) else {
                assert_eq!(view.open.len(), 0, "{name}");
                continue;
            };
            assert_eq!(header.revision, expected.revision, "{name}: revision");
            assert_eq!(nanos(header.pause.total(now)), expected.paused_total, "{name}: paused_total");
            let began = header.pause.since.map(|since| (since.boot - self.boot_ahead, since.wall));
            assert_eq!(began, expected.pause_began.map(|(at, wall)| (at as i64, wall)), "{name}: the open pause");
            assert_eq!(view.pause_end.map(pause_end), expected.pause_end, "{name}: the end of the last pause");
            if let Some(pauses) = self.system.pauses(&thread(name)) {
                // Pauses from before the thread was evicted come after these.
                let pauses = pauses.iter().take(expected.ended.len()).map(|pause| {
                    let began = (pause.since.boot - self.boot_ahead, pause.since.wall);
                    (began, pause.ended.boot - self.boot_ahead, pause_end(pause.how))
                });
                let expected = expected
                    .ended
                    .iter()
                    .rev()
                    .map(|((at, wall), ended, how)| ((*at as i64, *wall), *ended as i64, *how));
                assert_eq!(pauses.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{name}: its ended pauses");
            }
            let open = view.open.iter().map(|shown| {
                let about = &shown.elicitation;
                let ends = shown.ends.map(|ends| (ends.boot - self.boot_ahead, ends.wall));
                (about.id, about.reason.clone(), about.holder.clone(), about.created.wall, ends)
            });
            let expected = expected.open.iter().map(|open| {
                let ends = open.ends.map(|ends| (ends.at as i64, ends.shown));
                (self.ids[open.id], text(open.reason), text(open.holder), open.created, ends)
            });
            assert_eq!(open.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{name}: open elicitations");
        }
    }
}

/// An answer as a caller sees it.
#[derive(Debug, PartialEq)]
enum Said {
    Opened(usize, u64, service::Id, i64, Option<i64>),
    Closed(usize, u64),
    Renewed(service::Id, Option<i64>),
}

fn said(answer: service::Answer) -> Said {
    let shown = |ends: Option<service::End>| ends.map(|ends| ends.shown);
    match answer {
        service::Answer::Opened { count, revision, id, created, ends } => {
            Said::Opened(count, revision, id, created, shown(ends))
        }
        service::Answer::Closed { count, revision } => Said::Closed(count, revision),
        service::Answer::Renewed { id, ends } => Said::Renewed(id, shown(ends)),
    }
}

fn pause_end(end: PauseEnd) -> service::PauseEnd {
    match end {
        PauseEnd::Decremented => service::PauseEnd::Decremented,
        PauseEnd::Released => service::PauseEnd::Released,
        PauseEnd::Expired => service::PauseEnd::Expired,
        PauseEnd::MaxPause => service::PauseEnd::MaxPause,
    }
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).expect("less than 500 years")
}

struct Against<S>(PhantomData<S>);

impl<S: System> StateMachineTest for Against<S> {
    type SystemUnderTest = Option<Tested<S>>;
    type Reference = Steps<S>;

    fn init_test(state: &State) -> Option<Tested<S>> {
        let service::Leases { anonymous_ttl, max_pause } = state.service.leases;
        let [anonymous_ttl, max_pause] = [anonymous_ttl, max_pause].map(|length| length.map(Duration::from_nanos));
        let system = S::start(Arc::new(Hands::new()), Lengths { anonymous_ttl, max_pause });
        Some(Tested { system, ids: Vec::new(), boot_ahead: Hands::BEGINNING.boot })
    }

    fn apply(tested: Option<Tested<S>>, state: &State, step: Step) -> Option<Tested<S>> {
        let mut tested = tested?;
        // The model determines how far time advances.
        let until = tested.boot_ahead + state.called as i64;
        let span = (until - tested.system.clock().now().boot).unsigned_abs();
        match step {
            Step::Calls(_) | Step::Flood(..) | Step::Churn(_) => {}
            Step::Advance(_) => tested.work_until(until),
            Step::Late(..) => tested.system.clock().advance(span),
            Step::Sleep(_) => tested.system.clock().sleep(span),
            Step::SetWall(by) => tested.system.clock().set_wall(by),
            Step::Restart(_) => tested.system = tested.system.restart(|clock| clock.advance(span)),
            Step::Reboot(_) => {
                tested.system = tested.system.restart(|clock| {
                    clock.advance(span);
                    clock.reboot();
                });
                tested.boot_ahead = tested.system.clock().now().boot - state.called as i64;
            }
        }
        tested.call(&step, &state.answers);
        tested.work_until(tested.boot_ahead + state.service.now.at as i64);
        Some(tested)
    }

    fn check_invariants(tested: &Option<Tested<S>>, state: &State) {
        tested.iter().for_each(|tested| tested.compare(&state.service));
    }
}

/// `PROPTEST_CASES` makes it longer; `PROPTEST_RNG_SEED` selects other steps, or repeats them.
fn hold_against_the_model<S: System>(test: &str, cases: u32) {
    // The default includes the environment's settings.
    let mut config = Config::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => 0x5eed_0020,
    };
    let config = Config { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..config };
    println!("seed {seed}, {} cases", config.cases);
    let steps = Steps::<S>::sequential_strategy(1..50);
    let ran = TestRunner::new(config.clone()).run(&steps, |(state, steps, seen)| {
        Against::<S>::test_sequential(config.clone(), state, steps, seen);
        Ok(())
    });
    let cases = config.cases;
    let again = format!("PROPTEST_RNG_SEED={seed} PROPTEST_CASES={cases} cargo test --test model {test}");
    ran.unwrap_or_else(|failure| panic!("{failure}\nreplay: {again}"));
}

#[test]
fn the_rules_do_as_the_model_does() {
    hold_against_the_model::<Rules>("the_rules", 256);
}

#[test]
fn the_engine_does_as_the_model_does() {
    hold_against_the_model::<Forgetful>("the_engine_does", 256);
}

#[test]
fn the_engine_over_the_embedded_store_does_as_the_model_does() {
    hold_against_the_model::<Durable>("the_engine_over", 64);
}
