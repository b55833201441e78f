//! The service of docs/semantics.md, in the simplest possible way: a map from each thread to its open elicitations,
//! memories of closed ones and of request ids, and the time as a number. It has no batches, no store and no clocks: the
//! caller advances the time, and decides when leases end and restart.
use std::collections::BTreeMap;

/// Nanoseconds.
pub(crate) type Nanos = u64;
pub(crate) const SECOND: Nanos = 1_000_000_000;
pub(crate) const MINUTE: Nanos = 60 * SECOND;
pub(crate) const DAY: Nanos = 24 * 60 * MINUTE;
/// How long request ids and closed elicitations are remembered, and how many of each.
pub(crate) const MEMORY: (Nanos, usize) = (10 * MINUTE, 1_024);
pub(crate) const MOST_OPEN: usize = 1_000;

/// An elicitation; they are numbered in the order in which they are opened.
pub(crate) type Id = usize;
pub(crate) type Name = &'static str;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Increment { request_id: Option<u16>, reason: u8, holder: u8, ttl: Option<Nanos> },
    Decrement { request_id: Option<u16>, elicitation: Option<Id>, by_admin: bool },
    Renew { elicitation: Id, ttl: Option<Nanos> },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Opened { count: usize, revision: u64, id: Id, created: i64, ends: Option<End> },
    Closed { count: usize, revision: u64 },
    Renewed { id: Id, ends: Option<End> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Refusal {
    RequestIdReused,
    NoOutstanding,
    Unknown,
    Released,
    Expired,
    Capped,
    TooMany,
}

/// How a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PauseEnd {
    Decremented,
    Released,
    Expired,
    MaxPause,
}

impl PauseEnd {
    /// The refusal of a late call on the elicitation.
    fn refusal(self) -> Refusal {
        match self {
            PauseEnd::Decremented | PauseEnd::Released => Refusal::Released,
            PauseEnd::Expired => Refusal::Expired,
            PauseEnd::MaxPause => Refusal::Capped,
        }
    }
}

/// The end of a lease: its time, and the wall clock that was expected for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct End {
    pub(crate) at: Nanos,
    pub(crate) shown: i64,
}

/// The current time: since the beginning, and by the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) at: Nanos,
    pub(crate) wall: i64,
}

impl Now {
    fn end_of(self, lease: Nanos) -> End {
        End { at: self.at + lease, shown: self.wall + lease as i64 }
    }
}

/// The server's settings for leases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leases {
    pub(crate) anonymous_ttl: Option<Nanos>,
    pub(crate) max_pause: Option<Nanos>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Open {
    pub(crate) id: Id,
    pub(crate) reason: u8,
    pub(crate) holder: u8,
    pub(crate) created: i64,
    /// Whether its increment had a ttl.
    asked: bool,
    lease: Option<Nanos>,
    pub(crate) ends: Option<End>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Thread {
    pub(crate) revision: u64,
    /// Oldest first.
    pub(crate) open: Vec<Open>,
    pub(crate) paused_total: Nanos,
    /// The start of the open pause, also by the wall clock.
    pub(crate) pause_began: Option<(Nanos, i64)>,
    /// How the last pause ended, unless one is open. A restart forgets it.
    pub(crate) pause_end: Option<PauseEnd>,
    /// The pauses that have ended since the process started: begin, end, how.
    pub(crate) ended: Vec<((Nanos, i64), Nanos, PauseEnd)>,
    changed: Nanos,
    /// Which ones, how they ended, and when; the latest is last.
    closed: Vec<(Id, Refusal, Nanos)>,
    requests: Vec<(Call, Answer, Nanos)>,
}

impl Thread {
    /// A thread that is named for the first time.
    pub(crate) fn above(floor: u64) -> Self {
        Thread { revision: floor, ..Thread::default() }
    }

    /// Makes a call, or returns a refusal and changes nothing. `fresh`: the id for an elicitation that it opens.
    pub(crate) fn call(&mut self, call: &Call, fresh: Id, leases: Leases, now: Now) -> Result<Answer, Refusal> {
        if let Some(answer) = self.answered_before(call, now)? {
            return Ok(answer);
        }
        let answer = match *call {
            Call::Increment { reason, holder, ttl, .. } => {
                if self.open.len() == MOST_OPEN {
                    return Err(Refusal::TooMany);
                }
                if self.open.is_empty() {
                    (self.pause_began, self.pause_end) = (Some((now.at, now.wall)), None);
                }
                let lease = ttl.or(leases.anonymous_ttl).or(leases.max_pause);
                let (created, ends) = (now.wall, lease.map(|lease| self.cut(now.end_of(lease), leases)));
                self.open.push(Open { id: fresh, reason, holder, created, asked: ttl.is_some(), lease, ends });
                self.revision += 1;
                Answer::Opened { count: self.open.len(), revision: self.revision, id: fresh, created, ends }
            }
            Call::Decrement { elicitation: Some(id), by_admin, .. } => {
                self.find(id, now)?;
                self.close(id, decremented(by_admin), now)
            }
            Call::Decrement { elicitation: None, by_admin, .. } => {
                let first = self.open.iter().find(|open| !open.asked).or(self.open.first());
                let id = first.ok_or(Refusal::NoOutstanding)?.id;
                self.close(id, decremented(by_admin), now)
            }
            Call::Renew { elicitation, ttl } => {
                let lease = ttl.or(self.find(elicitation, now)?.lease);
                let ends = lease.map(|lease| self.cut(now.end_of(lease), leases));
                let open = self.find(elicitation, now)?;
                (open.lease, open.ends) = (lease, ends);
                return Ok(Answer::Renewed { id: elicitation, ends });
            }
        };
        self.changed = now.at;
        self.remember(call, &answer, now);
        Ok(answer)
    }

    /// The time at which the open pause reaches the maximum.
    fn cap(&self, leases: Leases) -> Option<End> {
        let ((at, wall), max) = (self.pause_began?, leases.max_pause?);
        Some(End { at: at + max, shown: wall + max as i64 })
    }

    fn cut(&self, end: End, leases: Leases) -> End {
        self.cap(leases).filter(|cap| cap.at < end.at).unwrap_or(end)
    }

    fn answered_before(&self, call: &Call, now: Now) -> Result<Option<Answer>, Refusal> {
        let Some(key) = request_of(call) else { return Ok(None) };
        let same = |(known, _, at): &&(Call, Answer, Nanos)| request_of(known) == Some(key) && now.at - at < MEMORY.0;
        match self.requests.iter().rev().find(same) {
            Some((known, ..)) if *known != content(call) => Err(Refusal::RequestIdReused),
            found => Ok(found.map(|(_, answer, _)| answer.clone())),
        }
    }

    fn remember(&mut self, call: &Call, answer: &Answer, now: Now) {
        if request_of(call).is_some() {
            self.requests.push((content(call), answer.clone(), now.at));
            keep_latest(&mut self.requests);
        }
    }

    fn find(&mut self, id: Id, now: Now) -> Result<&mut Open, Refusal> {
        let closed = self.closed.iter().find(|(closed, _, at)| *closed == id && now.at - at < MEMORY.0);
        let why = closed.map_or(Refusal::Unknown, |(_, how, _)| *how);
        self.open.iter_mut().find(|open| open.id == id).ok_or(why)
    }

    fn close(&mut self, id: Id, how: PauseEnd, now: Now) -> Answer {
        self.open.retain(|open| open.id != id);
        self.closed.push((id, how.refusal(), now.at));
        keep_latest(&mut self.closed);
        if self.open.is_empty() {
            self.ended.extend(self.pause_began.map(|began| (began, now.at, how)));
            (self.pause_began, self.pause_end) = (None, Some(how));
        }
        self.revision += 1;
        self.changed = now.at;
        Answer::Closed { count: self.open.len(), revision: self.revision }
    }

    /// How long the thread has been idle, if no elicitation is open.
    pub(crate) fn idle(&self, now: Nanos) -> Option<Nanos> {
        self.open.is_empty().then(|| now - self.changed)
    }
}

/// The scope of a request id: it belongs to its RPC.
fn request_of(call: &Call) -> Option<(bool, u16)> {
    match *call {
        Call::Increment { request_id, .. } => request_id.map(|id| (true, id)),
        Call::Decrement { request_id, .. } => request_id.map(|id| (false, id)),
        Call::Renew { .. } => None,
    }
}

fn decremented(by_admin: bool) -> PauseEnd {
    if by_admin { PauseEnd::Released } else { PauseEnd::Decremented }
}

/// The parts of a call that must be the same when it is repeated; another caller may repeat it.
fn content(call: &Call) -> Call {
    match *call {
        Call::Decrement { request_id, elicitation, .. } => Call::Decrement { request_id, elicitation, by_admin: false },
        _ => call.clone(),
    }
}

fn keep_latest<T>(list: &mut Vec<T>) {
    if list.len() > MEMORY.1 {
        list.remove(0);
    }
}

/// All threads.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) now: Now,
    pub(crate) leases: Leases,
    pub(crate) threads: BTreeMap<Name, Thread>,
    /// The highest revision of any thread that was evicted.
    pub(crate) floor: u64,
    /// The number of elicitations opened so far.
    pub(crate) opened: usize,
}

impl Service {
    pub(crate) fn call(&mut self, name: Name, call: &Call) -> Result<Answer, Refusal> {
        let mut new = Thread::above(self.floor);
        let thread = self.threads.get_mut(name).unwrap_or(&mut new);
        let answer = thread.call(call, self.opened, self.leases, self.now)?;
        self.opened += usize::from(matches!(answer, Answer::Opened { id, .. } if id == self.opened));
        self.threads.entry(name).or_insert(new);
        Ok(answer)
    }

    /// Lets time pass without any event.
    pub(crate) fn pass(&mut self, by: Nanos) {
        self.now.at += by;
        self.now.wall += by as i64;
        for thread in self.threads.values_mut().filter(|thread| !thread.open.is_empty()) {
            thread.paused_total += by;
        }
    }

    /// The time at which the next lease ends.
    pub(crate) fn next_end(&self) -> Option<Nanos> {
        self.threads.values().flat_map(|thread| &thread.open).filter_map(|open| Some(open.ends?.at)).min()
    }

    pub(crate) fn end_leases(&mut self) {
        for thread in self.threads.values_mut() {
            let has_ended = |open: &&Open| open.ends.is_some_and(|ends| ends.at <= self.now.at);
            let cap = thread.cap(self.leases).map(|cap| cap.at);
            let how =
                |open: &Open| if open.ends.map(|ends| ends.at) == cap { PauseEnd::MaxPause } else { PauseEnd::Expired };
            // Those that ended first are closed first.
            let mut ended: Vec<_> = thread.open.iter().filter(has_ended).collect();
            ended.sort_by_key(|open| open.ends.map(|ends| ends.at));
            let ended: Vec<_> = ended.into_iter().map(|open| (open.id, how(open))).collect();
            for (id, how) in ended {
                thread.close(id, how, self.now);
            }
        }
    }

    /// The process was restarted.
    pub(crate) fn forget_pause_ends(&mut self) {
        self.threads.values_mut().for_each(|thread| {
            thread.pause_end = None;
            thread.ended.clear();
        });
    }

    /// Called after a time in which no holder could renew.
    pub(crate) fn restart_leases(&mut self) {
        for thread in self.threads.values_mut() {
            let ends = |open: &Open| Some(thread.cut(self.now.end_of(open.lease?), self.leases));
            let ends: Vec<_> = thread.open.iter().map(ends).collect();
            for (open, ends) in thread.open.iter_mut().zip(ends) {
                open.ends = ends;
            }
        }
    }

    pub(crate) fn forget_idle_threads(&mut self) {
        let (now, floor) = (self.now.at, &mut self.floor);
        self.threads.retain(|_, thread| {
            let forget = thread.idle(now).is_some_and(|idle| idle >= DAY);
            *floor = if forget { thread.revision.max(*floor) } else { *floor };
            !forget
        });
    }
}
