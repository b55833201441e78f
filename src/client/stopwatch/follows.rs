//! The threads whose pauses stop one stopwatch: its own, and those that it awaits.
//!
//! 1. Without awaited threads, the paused time is that of its own thread.
//! 2. With the first awaited thread it becomes the union of all ([`PausedUnion`]), and stays so. The union begins with
//!    the paused time of its own thread since the stopwatch joined it, which a later state may correct.
//! 3. A thread that is awaited several times counts until the last wait ends.
use super::{meter::Meter, paused_time::JoinBaseline, paused_union::PausedUnion, thread::ThreadClock};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Follows {
    own: Member,
    /// Whether the first state after the join has arrived, and the meter has its baseline.
    has_baseline: bool,
    awaited: Option<Awaited>,
}

#[derive(Debug)]
struct Awaited {
    union: PausedUnion,
    /// The own thread is the first.
    members: Vec<Member>,
}

/// A thread since the stopwatch has joined it.
#[derive(Clone, Debug)]
struct Member {
    clock: Arc<ThreadClock>,
    joined: Instant,
    /// The paused time that was assumed at the join, and its correction by the next state.
    assumed: Duration,
    join_baseline: JoinBaseline,
    /// Its paused time since it joined, when the window of the union began.
    at_window: Duration,
    /// How often it is awaited.
    count: usize,
}

impl Member {
    fn join(clock: Arc<ThreadClock>, now: Instant) -> Self {
        let (assumed, join_baseline) = clock.join(now);
        Self { clock, joined: now, assumed, join_baseline, at_window: Duration::ZERO, count: 1 }
    }

    /// With a window that begins now.
    fn marked(&self, now: Instant) -> Self {
        Self { at_window: self.paused_time(now), ..self.clone() }
    }

    /// The paused time since it joined.
    fn paused_time(&self, now: Instant) -> Duration {
        let paused_time = self.clock.paused_time(now);
        let Some(baseline) = self.join_baseline.get() else { return paused_time.saturating_sub(self.assumed) };
        let growth = baseline.since_join(self.joined.into_std(), self.assumed);
        growth.saturating_add(paused_time.saturating_sub(baseline.paused_time))
    }

    fn growth(&self, now: Instant) -> Duration {
        self.paused_time(now).saturating_sub(self.at_window)
    }
}

impl Awaited {
    fn end_window(&mut self, now: Instant) {
        if self.union.end_window(now.into_std(), self.members.iter().map(|member| member.growth(now))) {
            for member in &mut self.members {
                *member = member.marked(now);
            }
        }
    }
}

impl Follows {
    /// Joins the thread. Returns its paused time as well, as far as is known.
    pub(super) fn new(own: Arc<ThreadClock>, now: Instant) -> (Self, Duration) {
        let own = Member::join(own, now);
        let assumed = own.assumed;
        (Self { own, has_baseline: false, awaited: None }, assumed)
    }

    /// The time and the paused time; gives the meter its baseline if that has arrived.
    pub(super) fn now(&mut self, meter: &mut Meter) -> (Instant, Duration) {
        if let Some(awaited) = &self.awaited {
            let now = Instant::now();
            let growths = awaited.members.iter().map(|member| member.growth(now));
            return (now, awaited.union.total(now.into_std(), growths));
        }
        let reading = self.own.clock.now();
        // In this order: if there is no baseline yet, the reading is from before the state that sets it.
        let Some(baseline) = self.own.join_baseline.get().filter(|_| !self.has_baseline) else {
            return reading;
        };
        self.has_baseline = true;
        meter.set_baseline(baseline);
        self.own.clock.now()
    }

    /// Awaits a thread from `now` on, when the paused time is `paused_time`.
    pub(super) fn add(&mut self, clock: &Arc<ThreadClock>, meter: &mut Meter, now: Instant, paused_time: Duration) {
        let awaited = self.awaited.get_or_insert_with(|| {
            let own = self.own.marked(now);
            meter.follow(now.into_std(), paused_time, own.at_window);
            let union = PausedUnion::with(own.joined.into_std(), now.into_std(), own.at_window);
            Awaited { union, members: vec![own] }
        });
        match awaited.members.iter_mut().skip(1).find(|member| Arc::ptr_eq(&member.clock, clock)) {
            Some(member) => member.count += 1,
            None => {
                awaited.end_window(now);
                awaited.members.push(Member::join(clock.clone(), now));
            }
        }
    }

    /// Ends one wait for a thread. Its paused time until now still counts.
    pub(super) fn remove(&mut self, clock: &Arc<ThreadClock>, now: Instant) {
        let Some(awaited) = &mut self.awaited else { return };
        let found = awaited.members.iter().skip(1).position(|member| Arc::ptr_eq(&member.clock, clock));
        let Some(index) = found.map(|index| index + 1) else { return };
        awaited.members[index].count -= 1;
        if awaited.members[index].count == 0 {
            awaited.end_window(now);
            awaited.members.remove(index);
        }
    }

    /// Ends the window of the union at `now` if every thread is connected, because then all paused time until now is
    /// known.
    pub(super) fn settle(&mut self, now: Instant) {
        if let Some(awaited) = &mut self.awaited
            && awaited.members.iter().all(|member| member.clock.pause(now).1.is_none())
        {
            awaited.end_window(now);
        }
    }

    /// The threads, and when each of them joined.
    pub(super) fn all(&self) -> Vec<(Arc<ThreadClock>, Instant)> {
        let own = (self.own.clock.clone(), self.own.joined);
        let awaited = self.awaited.iter().flat_map(|awaited| awaited.members.iter().skip(1));
        [own].into_iter().chain(awaited.map(|member| (member.clock.clone(), member.joined))).collect()
    }

    /// Whether a thread is paused, and until when an unconfirmed pause counts while disconnected. Returns a paused
    /// thread; if none is paused, one whose state is unconfirmed, if there is one.
    pub(super) fn pause(&self, now: Instant) -> (bool, Option<Instant>, Arc<ThreadClock>) {
        let awaited = self.awaited.iter().flat_map(|awaited| awaited.members.iter().skip(1));
        let mut unconfirmed = None;
        for clock in [&self.own.clock].into_iter().chain(awaited.map(|member| &member.clock)) {
            match clock.pause(now) {
                (true, valid_until) => return (true, valid_until, clock.clone()),
                (false, Some(valid_until)) => _ = unconfirmed.get_or_insert((valid_until, clock)),
                (false, None) => {}
            }
        }
        match unconfirmed {
            Some((valid_until, clock)) => (false, Some(valid_until), clock.clone()),
            None => (false, None, self.own.clock.clone()),
        }
    }
}
