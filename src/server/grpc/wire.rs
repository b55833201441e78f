//! Converts between the proto and core. A request becomes valid values, or an error with the first invalid field.
use crate::clock::Clock;
use crate::coordinator::hub::{ClosedElicitation, EndedPause, Hub, Interest, OpenElicitation, Shown, View};
use crate::core::types::{InvalidField, MAX_CHANGED, MAX_WATCHED, ThreadId, Ttl, text};
use crate::core::{Command, Elicitation, ElicitationRef, PauseEnd, Timestamp};
use crate::proto::v1;
use std::time::Duration;

/// The longest token, in bytes: as long as all headers of a call may be.
const MAX_TOKEN: usize = 16 << 10;

type Parsed<T> = Result<T, InvalidField>;

pub(crate) fn thread_id(text: &str) -> Parsed<ThreadId> {
    ThreadId::parse("thread_id", text)
}

fn request_id(id: String) -> Parsed<Box<str>> {
    text("request_id", id, 128, "up to 128 bytes")
}

fn named(id: String) -> Parsed<ElicitationRef> {
    const ALLOWED: &str = "1 to 64 bytes";
    match id.is_empty() {
        true => Err(InvalidField::new("elicitation_id", "empty", ALLOWED)),
        false => text("elicitation_id", id, 64, ALLOWED).map(ElicitationRef),
    }
}

fn ttl(ttl: Option<prost_types::Duration>) -> Parsed<Option<Ttl>> {
    ttl.map(|ttl| Ttl::from_parts("ttl", ttl.seconds, ttl.nanos)).transpose()
}

pub(crate) fn increment(request: v1::IncrementElicitationRequest) -> Parsed<(ThreadId, Command)> {
    let thread = thread_id(&request.thread_id)?;
    let command = Command::Increment {
        request_id: request_id(request.request_id)?,
        reason: text("reason", request.reason, 1_024, "up to 1,024 bytes")?,
        holder: text("holder", request.holder, 256, "up to 256 bytes")?,
        ttl: ttl(request.ttl)?,
    };
    Ok((thread, command))
}

pub(crate) fn decrement(request: v1::DecrementElicitationRequest, by_admin: bool) -> Parsed<(ThreadId, Command)> {
    let thread = thread_id(&request.thread_id)?;
    let elicitation = request.elicitation_id.map(named).transpose()?;
    Ok((thread, Command::Decrement { request_id: request_id(request.request_id)?, elicitation, by_admin }))
}

pub(crate) fn renew(request: v1::RenewElicitationRequest) -> Parsed<(ThreadId, Command)> {
    let thread = thread_id(&request.thread_id)?;
    Ok((thread, Command::Renew { elicitation: named(request.elicitation_id)?, ttl: ttl(request.ttl)? }))
}

/// The threads to watch.
pub(crate) fn watch(request: &v1::WatchPauseStateRequest) -> Parsed<Interest> {
    let ids = &request.thread_ids;
    if ids.len() > MAX_WATCHED {
        return Err(InvalidField::new("thread_ids", format!("{} ids", ids.len()), "at most 10,000 ids"));
    }
    Ok(if ids.is_empty() { Interest::All } else { Interest::Threads(thread_ids("thread_ids", ids)?) })
}

/// A request of `Watch`.
#[derive(Debug)]
pub(crate) struct WatchChange {
    pub(crate) add: Vec<ThreadId>,
    pub(crate) remove: Vec<ThreadId>,
    pub(crate) confirm: Vec<ThreadId>,
    pub(crate) all_threads: bool,
    pub(crate) include_elicitations: bool,
    pub(crate) observer: bool,
    pub(crate) token: String,
}

pub(crate) fn watch_change(request: v1::WatchRequest, is_first: bool) -> Parsed<WatchChange> {
    let v1::WatchRequest { add, remove, confirm, all_threads, include_elicitations, token, observer } = request;
    let of_the_stream =
        [("all_threads", all_threads), ("include_elicitations", include_elicitations), ("observer", observer)];
    for (field, value) in of_the_stream {
        if value && !is_first {
            return Err(InvalidField::new(
                field,
                "set in a later request",
                "set in the first request of a stream that is not refused",
            ));
        }
    }
    let mut named = 0;
    for (field, ids) in [("add", &add), ("remove", &remove), ("confirm", &confirm)] {
        named += ids.len();
        if named > MAX_CHANGED {
            let was = format!("the one with id {} of the request", MAX_CHANGED + 1);
            return Err(InvalidField::new(field, was, "1,000 ids in add, remove and confirm together"));
        }
    }
    if token.len() > MAX_TOKEN {
        return Err(InvalidField::new("token", format!("{} bytes long", token.len()), "up to 16,384 bytes"));
    }
    Ok(WatchChange {
        add: thread_ids("add", &add)?,
        remove: thread_ids("remove", &remove)?,
        confirm: thread_ids("confirm", &confirm)?,
        all_threads,
        include_elicitations,
        observer,
        token,
    })
}

fn thread_ids(field: &str, ids: &[String]) -> Parsed<Vec<ThreadId>> {
    let parse = |(i, id): (usize, &String)| {
        ThreadId::parse("", id).map_err(|invalid| InvalidField { field: format!("{field}[{i}]"), ..invalid })
    };
    ids.iter().enumerate().map(parse).collect()
}

pub(super) fn duration(duration: Duration) -> prost_types::Duration {
    duration.try_into().expect("durations are differences of 64-bit nanoseconds")
}

const SECOND: i64 = 1_000_000_000;

fn timestamp(moment: Timestamp) -> prost_types::Timestamp {
    wall_time(moment.wall)
}

/// A time of the wall clock, in nanoseconds since 1970.
pub(super) fn wall_time(nanos: i64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: nanos.div_euclid(SECOND),
        nanos: i32::try_from(nanos.rem_euclid(SECOND)).expect("below a billion"),
    }
}

/// The nanoseconds of a time of the wall clock. A time before 1677 or after 2262 becomes the nearest one that the
/// server's type can hold.
pub(super) fn wall_nanos(field: &str, time: &prost_types::Timestamp) -> Parsed<i64> {
    const YEARS_1_TO_9999: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
    let is_valid = YEARS_1_TO_9999.contains(&time.seconds) && (0..1_000_000_000).contains(&time.nanos);
    match is_valid {
        true => Ok(time.seconds.saturating_mul(SECOND).saturating_add(time.nanos.into())),
        false => Err(InvalidField::new(
            field,
            format!("{} s and {} ns", time.seconds, time.nanos),
            "a time of the years 1 to 9999, with 0 to 999,999,999 ns",
        )),
    }
}

pub(crate) fn elicitation(thread: &ThreadId, elicitation: &Elicitation, ends: Option<Timestamp>) -> v1::Elicitation {
    v1::Elicitation {
        elicitation_id: elicitation.id.to_string(),
        thread_id: thread.as_str().to_owned(),
        reason: elicitation.reason.to_string(),
        holder: elicitation.holder.to_string(),
        create_time: Some(timestamp(elicitation.created)),
        expire_time: ends.map(timestamp),
    }
}

/// The moment and the epoch of the states that are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadContext {
    pub(crate) now: Timestamp,
    pub(crate) epoch: u64,
}

impl ReadContext {
    /// The context at present, limited to the time up to which durations are exact. Call this before reading the state.
    pub(super) fn of(hub: &Hub, clock: &dyn Clock) -> Self {
        ReadContext { now: hub.safe_time().limit(clock.now()), epoch: hub.epoch() }
    }
}

/// A moment of a pause on the wall clock as it was when the pause began at `start`, so that the differences between the
/// times in one state are right after the wall clock was set. Steps of less than a second are ignored: the clocks are
/// not read at the same moment, and the wall clock is slewed.
fn on_one_clock(start: Option<Timestamp>, moment: Timestamp) -> Timestamp {
    let Some(start) = start else { return moment };
    let wall = start.wall.saturating_add(moment.boot.saturating_sub(start.boot));
    if wall.abs_diff(moment.wall) < SECOND.unsigned_abs() { moment } else { Timestamp { wall, ..moment } }
}

/// The time until the last lease ends; `None`: nothing is open, or a lease has no end.
fn longest_lease(open: &[OpenElicitation], now: Timestamp) -> Option<Duration> {
    let ends: Option<Vec<_>> = open.iter().map(|shown| Some(shown.latest_end(now)?.boot)).collect();
    let last = ends?.into_iter().max()?;
    Some(Duration::from_nanos(last.saturating_sub(now.boot).max(0).unsigned_abs()))
}

fn pause_end(end: PauseEnd) -> v1::PauseEnd {
    match end {
        PauseEnd::Decremented => v1::PauseEnd::Decremented,
        PauseEnd::Released => v1::PauseEnd::Released,
        PauseEnd::Expired => v1::PauseEnd::Expired,
        PauseEnd::MaxPause => v1::PauseEnd::MaxPause,
    }
}

/// A thread's state, with its open elicitations if `include_elicitations`.
pub(crate) fn pause_state(
    thread: &ThreadId,
    known: Option<Shown<'_>>,
    floor: u64,
    include_elicitations: bool,
    ReadContext { now, epoch }: ReadContext,
) -> v1::PauseState {
    let Some(Shown { header, open, pause_end: last_pause_end }) = known else {
        let zero = Some(duration(Duration::ZERO));
        let thread_id = thread.as_str().to_owned();
        let state = v1::PauseState { thread_id, revision: floor, paused_total: zero, ..Default::default() };
        return v1::PauseState { store_epoch: epoch, ..state };
    };
    let on_one_clock = |moment| timestamp(on_one_clock(header.pause.since, moment));
    let elicitation = |shown: &OpenElicitation| v1::Elicitation {
        create_time: Some(on_one_clock(shown.elicitation.created)),
        expire_time: shown.latest_end(now).map(on_one_clock),
        ..elicitation(thread, &shown.elicitation, None)
    };
    v1::PauseState {
        thread_id: thread.as_str().to_owned(),
        count: u32::try_from(open.len()).unwrap_or(u32::MAX),
        paused: header.pause.since.is_some(),
        revision: header.revision,
        paused_total: Some(duration(header.pause.total(now))),
        paused_for: header.pause.open_for(now).map(duration),
        pause_start_time: header.pause.since.map(timestamp),
        elicitations: match include_elicitations {
            true => open.iter().map(elicitation).collect(),
            false => Vec::new(),
        },
        store_epoch: epoch,
        longest_lease: longest_lease(open, now).map(duration),
        last_pause_end: last_pause_end.map_or(v1::PauseEnd::Unspecified, pause_end).into(),
        watchers: 0,
    }
}

pub(crate) fn view(view: &View, context: ReadContext) -> v1::PauseState {
    let state = pause_state(&view.thread, view.shown(), view.floor, true, context);
    v1::PauseState { watchers: view.watchers, ..state }
}

pub(super) fn pause(pause: &EndedPause) -> v1::Pause {
    let elicitation = |closed: &ClosedElicitation| v1::ClosedElicitation {
        elicitation_id: closed.elicitation.id.to_string(),
        reason: closed.elicitation.reason.to_string(),
        holder: closed.elicitation.holder.to_string(),
        create_time: Some(timestamp(closed.elicitation.created)),
        end_time: Some(timestamp(closed.closed)),
        ended_by: pause_end(closed.how).into(),
    };
    v1::Pause {
        thread_id: pause.thread.as_str().to_owned(),
        start_time: Some(timestamp(pause.since)),
        end_time: Some(timestamp(pause.ended)),
        duration: Some(duration(pause.length())),
        ended_by: pause_end(pause.how).into(),
        elicitations: pause.elicitations.iter().map(elicitation).collect(),
        omitted_elicitations: pause.omitted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::types::ElicitationId;
    use crate::core::{Header, Pause};
    use std::sync::Arc;

    /// The difference of two times in seconds.
    fn seconds(later: &prost_types::Timestamp, earlier: &prost_types::Timestamp) -> i64 {
        later.seconds - earlier.seconds
    }

    #[test]
    fn the_times_of_a_state_are_right_to_each_other_after_a_step_of_the_wall_clock() {
        let thread = thread_id("t").expect("valid");
        let start = Timestamp { boot: 100 * SECOND, wall: 1_800_000_000 * SECOND };
        let open = |boot: i64, wall_step: i64| {
            let created = Timestamp { boot: boot * SECOND, wall: start.wall + (boot - 100 + wall_step) * SECOND };
            let id = ElicitationId(1);
            let elicitation = Arc::new(Elicitation { id, reason: "".into(), holder: "".into(), created });
            OpenElicitation { elicitation, ends: Some(created.after(Duration::from_secs(300))), at_most: None }
        };
        let pause = Pause { accrued: Duration::ZERO, since: Some(start) };
        let header = Header { revision: 3, pause, changed: start };
        let now = Timestamp { boot: 110 * SECOND, ..start };
        for step in [0, 7_200, -7_200] {
            let open = [open(100, 0), open(105, step)];
            let shown = Shown { header: &header, open: &open, pause_end: None };
            let state = pause_state(&thread, Some(shown), 0, true, ReadContext { now, epoch: 1 });
            let began = state.pause_start_time.expect("it is paused");
            let times =
                |of: &v1::Elicitation| [of.create_time, of.expire_time].map(|time| seconds(&time.unwrap(), &began));
            assert_eq!([0, 1].map(|i| times(&state.elicitations[i])), [[0, 300], [5, 305]], "a step of {step} s");
        }
    }
}
