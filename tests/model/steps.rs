//! The events that may happen to the service, and the model's reaction to them.
use crate::service::{Answer, Call, DAY, Id, Leases, MINUTE, MOST_OPEN, Name, Nanos, Now, Refusal, SECOND, Service};
use crate::system::System;
use proptest::prelude::*;
use proptest::sample::select;
use proptest_state_machine::ReferenceStateMachine;
use std::marker::PhantomData;

/// Only a few, so that steps interfere.
pub(crate) const NAMES: [Name; 3] = ["a", "b", "c"];
/// A thread that has been idle for a day is evicted within this time: the only time that the service leaves open.
const SWEEP: Nanos = MINUTE;
/// An id that was never returned.
const NEVER: Id = Id::MAX;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Calls that arrive at the same time.
    Calls(Vec<(Name, Call)>),
    /// Time passes, and all that is due meanwhile is done in time.
    Advance(Nanos),
    /// The machine is too busy to do what is due; afterwards, calls are waiting.
    Late(Nanos, Vec<(Name, Call)>),
    /// The machine sleeps.
    Sleep(Nanos),
    /// The wall clock is set.
    SetWall(i64),
    /// The process ends, and another one starts after a while.
    Restart(Nanos),
    /// The machine reboots.
    Reboot(Nanos),
    /// A runaway tool opens as many elicitations as it can.
    Flood(Name, Option<Nanos>),
    /// More elicitations are opened and closed than can be remembered.
    Churn(Name),
}

impl Step {
    /// The calls of the step, batch by batch.
    pub(crate) fn batches(&self) -> Vec<Vec<(Name, Call)>> {
        match self {
            Step::Calls(calls) | Step::Late(_, calls) => vec![calls.clone()],
            Step::Flood(name, ttl) => {
                let increment = Call::Increment { request_id: None, reason: 1, holder: 1, ttl: *ttl };
                vec![vec![(*name, increment); MOST_OPEN + 1]]
            }
            Step::Churn(name) => {
                let open = |i| Call::Increment { request_id: Some(i), reason: 2, holder: 2, ttl: None };
                let close = |i| Call::Decrement { request_id: Some(i), elicitation: None, by_admin: false };
                let batch = |first| (first..first + 103).flat_map(|i| [(*name, open(i)), (*name, close(i))]).collect();
                (0..10).map(|i| batch(i * 103)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The model, and its answers to the calls of the latest step.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) service: Service,
    pub(crate) answers: Vec<Result<Answer, Refusal>>,
    /// The time of those calls.
    pub(crate) called: Nanos,
    /// After a reboot, the wall clock measures how long it took, so it must not have been set.
    wall_was_set: bool,
}

impl State {
    /// Lets time pass, and some more if the service might or might not have evicted a thread by its end.
    fn pass(&mut self, by: Nanos, mut pass: impl FnMut(&mut Service, Nanos)) {
        pass(&mut self.service, by);
        let open = |service: &Service| {
            let idle = |thread: &crate::service::Thread| thread.idle(service.now.at);
            service.threads.values().filter_map(idle).any(|idle| (DAY..DAY + 2 * SWEEP).contains(&idle))
        };
        while open(&self.service) {
            pass(&mut self.service, SWEEP);
        }
    }
}

fn in_time(service: &mut Service, by: Nanos) {
    let until = service.now.at + by;
    while let Some(end) = service.next_end().filter(|end| *end <= until) {
        service.pass(end - service.now.at);
        service.end_leases();
    }
    service.pass(until - service.now.at);
}

/// The steps for one kind of system.
pub(crate) struct Steps<S>(PhantomData<S>);

impl<S: System> ReferenceStateMachine for Steps<S> {
    type State = State;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<State> {
        let state = |(anonymous_ttl, max_pause)| {
            let leases = Leases { anonymous_ttl, max_pause };
            let now = Now { at: 0, wall: 1_800_000_000 * SECOND as i64 };
            let service = Service { now, leases, threads: Default::default(), floor: S::FLOOR, opened: 0 };
            State { service, answers: Vec::new(), called: 0, wall_was_set: false }
        };
        let anonymous_ttl = prop_oneof![3 => Just(Some(DAY)), 1 => Just(Some(5 * SECOND)), 1 => Just(None)];
        let lengths = [SECOND, 10 * SECOND, 10 * MINUTE, DAY];
        let max_pause = prop_oneof![2 => Just(None), 3 => select(lengths.to_vec()).prop_map(Some)];
        (anonymous_ttl, max_pause).prop_map(state).boxed()
    }

    fn transitions(state: &State) -> BoxedStrategy<Step> {
        let (calls, span) = (calls(state.service.opened), span());
        let time = prop_oneof![
            6 => span.clone().prop_map(Step::Advance),
            2 => (span.clone(), calls.clone()).prop_map(|(by, calls)| Step::Late(by.min(DAY / 2), calls)),
        ];
        let machine = prop_oneof![
            2 => span.clone().prop_map(|by| Step::Sleep(by.max(SECOND))),
            1 => (-100_000..100_000_i64).prop_map(|seconds| Step::SetWall(seconds * SECOND as i64)),
        ];
        let process = prop_oneof![
            3 => span.clone().prop_map(Step::Restart),
            1 => span.prop_map(Step::Reboot),
        ];
        let many = prop_oneof![
            2 => (select(&NAMES[..]), ttl()).prop_map(|(name, ttl)| Step::Flood(name, ttl)),
            1 => select(&NAMES[..]).prop_map(Step::Churn),
        ];
        prop_oneof![
            60 => calls.prop_map(Step::Calls),
            25 => time,
            if S::SLEEPS { 4 } else { 0 } => machine,
            if S::KEEPS { 8 } else { 0 } => process,
            1 => many,
        ]
        .boxed()
    }

    fn preconditions(state: &State, step: &Step) -> bool {
        let named = |call: &Call| match *call {
            Call::Decrement { elicitation, .. } => elicitation,
            Call::Renew { elicitation, .. } => Some(elicitation),
            Call::Increment { .. } => None,
        };
        let known = |(_, call): &(Name, Call)| named(call).is_none_or(|id| id == NEVER || id < state.service.opened);
        match step {
            Step::Reboot(_) => !state.wall_was_set,
            Step::Calls(calls) | Step::Late(_, calls) => calls.iter().all(known),
            _ => true,
        }
    }

    fn apply(mut state: State, step: &Step) -> State {
        match *step {
            Step::Calls(_) | Step::Flood(..) | Step::Churn(_) => {}
            Step::Advance(by) => state.pass(by, in_time),
            Step::Late(by, _) => {
                state.pass(by, Service::pass);
                state.service.end_leases();
            }
            Step::Sleep(by) | Step::Restart(by) | Step::Reboot(by) => {
                if !matches!(step, Step::Sleep(_)) {
                    state.service.forget_pause_ends();
                }
                state.pass(by, Service::pass);
                state.service.restart_leases();
                // A pause that has exceeded the maximum meanwhile ends at once.
                state.service.end_leases();
            }
            Step::SetWall(by) => {
                state.service.now.wall += by;
                state.wall_was_set = true;
            }
        }
        if S::SWEEPS {
            state.service.forget_idle_threads();
        }
        let calls = step.batches().into_iter().flatten();
        state.answers = calls.map(|(name, call)| state.service.call(name, &call)).collect();
        state.called = state.service.now.at;
        if matches!(step, Step::Late(..) | Step::Sleep(_) | Step::Restart(_) | Step::Reboot(_)) {
            // After a leap in time, expired memories are deleted bit by bit: this gives it time.
            state.pass(SECOND, in_time);
            if S::SWEEPS {
                state.service.forget_idle_threads();
            }
        }
        state
    }
}

fn ttl() -> impl Strategy<Value = Option<Nanos>> + Clone {
    let lengths = [SECOND, 2 * SECOND, 10 * SECOND, 30 * SECOND, 20 * MINUTE, DAY];
    prop_oneof![2 => Just(None), 3 => select(lengths.to_vec()).prop_map(Some)]
}

/// Durations just below and above every limit.
fn span() -> impl Strategy<Value = Nanos> + Clone {
    let edges = [SECOND, 2 * SECOND, 10 * SECOND, 30 * SECOND, 10 * MINUTE, DAY];
    let edge = (select(edges.to_vec()), 0..3_u64).prop_map(|(edge, past)| edge + past - 1);
    prop_oneof![4 => (1..20_000_u64).prop_map(|ms| ms * SECOND / 1_000), 4 => edge, 1 => 1..2 * DAY]
}

fn calls(opened: usize) -> impl Strategy<Value = Vec<(Name, Call)>> + Clone {
    // Some request ids of a churn are remembered, some are not.
    let request_id =
        || prop_oneof![8 => Just(None), 10 => (0..3_u16).prop_map(Some), 1 => (516..520_u16).prop_map(Some)];
    // The latest ones are most likely to be still open.
    let latest = opened.saturating_sub(4)..opened.max(1);
    let id = prop_oneof![6 => latest, 3 => 0..opened.max(1), 1 => Just(NEVER)];
    let id = id.prop_map(move |id| if id < opened { id } else { NEVER });
    let increment = (request_id(), 0..2_u8, 0..2_u8, ttl())
        .prop_map(|(request_id, reason, holder, ttl)| Call::Increment { request_id, reason, holder, ttl });
    let decrement = (request_id(), prop_oneof![1 => Just(None), 1 => id.clone().prop_map(Some)], any::<bool>())
        .prop_map(|(request_id, elicitation, by_admin)| Call::Decrement { request_id, elicitation, by_admin });
    let renew = (id, ttl()).prop_map(|(elicitation, ttl)| Call::Renew { elicitation, ttl });
    let call = prop_oneof![5 => increment, 5 => decrement, 2 => renew];
    prop::collection::vec((select(&NAMES[..]), call), 1..4)
}
