//! The paused threads that `list --watch` shows: what a watch reports, with the leases and watchers of a list.
//!
//! 1. Only the watch adds and removes rows. A list changes a row only if it has the same revision: renewals and
//!    watchers do not change the revision, and all other changes arrive through the watch.
//! 2. While the watch is disconnected, the rows stay as they were when the connection was lost.
//! 3. All durations in a [`Row`] are of one moment by the server's clock, without clock skew: a duration that the
//!    server sent, plus the time since it arrived, by the boot-time clock of this machine.
use super::super::format;
use crate::client::{Elicitation, PauseState};
use std::{collections::HashMap, time::Duration};

/// A paused thread.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) state: PauseState,
    /// How many streams watch it, without observers such as this board; `None`: not known yet.
    pub(super) watchers: Option<u32>,
}

/// The parts of a table that make it print again when they change. Durations always change, so they are not included.
pub(super) type Version = Vec<(String, u64, u64, Option<u32>)>;

/// All times are of the boot-time clock.
#[derive(Debug, Default)]
pub(super) struct Board {
    threads: HashMap<String, Thread>,
    /// How many of them have watchers that are not known.
    unknown: usize,
    is_complete: bool,
    lost_at: Option<Duration>,
}

#[derive(Debug)]
struct Thread {
    row: Row,
    received: Duration,
    /// When its pause began, in nanoseconds of the boot-time clock of this machine; below 0 if that was before its start. Kept while
    /// the pause lasts, so that rows do not change places.
    began: i128,
    /// It was reported since the watch was connected.
    is_current: bool,
}

impl Board {
    /// The watch has reported a state.
    pub(super) fn changed(&mut self, state: PauseState, now: Duration) {
        let before = self.threads.remove(&state.thread_id);
        if before.as_ref().is_some_and(|thread| thread.row.watchers.is_none()) {
            self.unknown -= 1;
        }
        if state.paused {
            let watchers = before.as_ref().and_then(|thread| thread.row.watchers);
            self.unknown += usize::from(watchers.is_none());
            let same = before.filter(|thread| thread.row.state.pause_start_time == state.pause_start_time);
            let paused_for = format::length(&state.paused_for).as_nanos();
            let began = same.map_or(now.as_nanos().cast_signed() - paused_for.cast_signed(), |thread| thread.began);
            let thread_id = state.thread_id.clone();
            let row = Row { state, watchers };
            self.threads.insert(thread_id, Thread { row, received: now, began, is_current: true });
        }
    }

    /// The watch has reported every thread. The others are no longer paused.
    pub(super) fn completed(&mut self) {
        self.threads.retain(|_, thread| thread.is_current);
        self.unknown = self.threads.values().filter(|thread| thread.row.watchers.is_none()).count();
        (self.is_complete, self.lost_at) = (true, None);
    }

    /// The watch was disconnected.
    pub(super) fn disconnected(&mut self, lost_at: Duration) {
        self.threads.values_mut().for_each(|thread| thread.is_current = false);
        self.lost_at.get_or_insert(lost_at);
    }

    /// A list that began while the watch was connected has these states. Returns whether watchers have changed.
    pub(super) fn listed(&mut self, states: Vec<PauseState>, now: Duration) -> bool {
        let mut has_changed = false;
        for state in states {
            let Some(thread) = self.threads.get_mut(&state.thread_id) else { continue };
            let version = |state: &PauseState| (state.store_epoch, state.revision);
            if thread.is_current && version(&thread.row.state) == version(&state) {
                let watchers = Some(state.watchers);
                self.unknown -= usize::from(thread.row.watchers.is_none());
                has_changed |= thread.row.watchers != watchers;
                (thread.row, thread.received) = (Row { state, watchers }, now);
            }
        }
        has_changed
    }

    /// Whether every thread was reported once, so that the rows are complete.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// When the connection was lost, while it is.
    pub(super) fn lost_at(&self) -> Option<Duration> {
        self.lost_at
    }

    /// Whether the watchers of every row are known.
    pub(super) fn knows_watchers(&self) -> bool {
        self.unknown == 0
    }

    pub(super) fn version(&self) -> Version {
        let version =
            |Row { state, watchers }: &Row| (state.thread_id.clone(), state.store_epoch, state.revision, *watchers);
        let mut versions: Version = self.threads.values().map(|thread| version(&thread.row)).collect();
        versions.sort_unstable();
        versions
    }

    /// The rows at `now`, or when the connection was lost; the longest pause first. They are not sorted by their start
    /// on the server's wall clock, which may have been set.
    pub(super) fn rows(&self, now: Duration) -> Vec<Row> {
        let now = self.lost_at.unwrap_or(now);
        let mut threads: Vec<_> = self.threads.iter().collect();
        threads.sort_by_key(|(thread_id, thread)| (thread.began, *thread_id));
        threads.into_iter().map(|(_, thread)| later(thread, now)).collect()
    }
}

/// The row with the lengths of a later moment.
fn later(thread: &Thread, now: Duration) -> Row {
    let mut row = thread.row.clone();
    let passed = now.saturating_sub(thread.received);
    let wire = |length: Duration| length.try_into().ok();
    let state = &mut row.state;
    state.watchers = row.watchers.unwrap_or_default();
    state.paused_for = wire(format::length(&state.paused_for) + passed);
    state.paused_total = wire(format::length(&state.paused_total) + passed);
    let lease = state.longest_lease.is_some().then(|| format::length(&state.longest_lease).saturating_sub(passed));
    state.longest_lease = lease.and_then(wire);
    row
}

/// How long the lease of an elicitation of this state lasts from then on; `None`: it has no lease.
pub(super) fn lease_left(state: &PauseState, elicitation: &Elicitation) -> Option<Duration> {
    // When the state was sent, by the server's clock: all times in it are of that clock.
    let now = format::since_epoch(&state.pause_start_time) + format::length(&state.paused_for);
    elicitation.expire_time.is_some().then(|| format::since_epoch(&elicitation.expire_time).saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn wire(seconds: i64) -> Option<prost_types::Duration> {
        Some(prost_types::Duration { seconds, nanos: 0 })
    }

    fn moment(seconds: i64) -> Option<prost_types::Timestamp> {
        Some(prost_types::Timestamp { seconds, nanos: 0 })
    }

    /// Paused since `start` for `paused_for` seconds by a server that is a million seconds ahead, with a lease of a minute.
    fn state(thread_id: &str, revision: u64, start: i64, paused_for: i64) -> PauseState {
        let start = start + 1_000_000;
        let elicitation = Elicitation { expire_time: moment(start + paused_for + 60), ..Default::default() };
        PauseState {
            thread_id: thread_id.into(),
            revision,
            paused: true,
            count: 1,
            pause_start_time: moment(start),
            paused_for: wire(paused_for),
            paused_total: wire(paused_for),
            longest_lease: wire(60),
            elicitations: vec![elicitation],
            ..Default::default()
        }
    }

    fn ids(board: &Board, now: Duration) -> Vec<String> {
        board.rows(now).into_iter().map(|row| row.state.thread_id).collect()
    }

    fn board(states: impl IntoIterator<Item = PauseState>) -> Board {
        let mut board = Board::default();
        states.into_iter().for_each(|state| board.changed(state, seconds(0)));
        board.completed();
        board
    }

    #[test]
    fn the_longest_pause_is_first_and_a_thread_that_resumes_is_gone() {
        let mut board = board([state("b", 1, 5, 0), state("a", 2, 5, 0), state("c", 3, 1, 4)]);
        assert_eq!(ids(&board, seconds(0)), ["c", "a", "b"]);
        board.changed(PauseState { thread_id: "c".into(), revision: 4, ..Default::default() }, seconds(1));
        assert_eq!(ids(&board, seconds(1)), ["a", "b"]);
    }

    #[test]
    fn the_longest_pause_is_first_though_the_wall_clock_of_the_server_was_set_back() {
        let mut board = board([state("new", 2, 40, 5), state("old", 1, 100, 70)]);
        assert_eq!(ids(&board, seconds(0)), ["old", "new"]);
        // Reported again a little late: they keep their places.
        board.changed(state("z", 3, 100, 70), seconds(0));
        board.changed(state("old", 4, 100, 70), seconds(1));
        assert_eq!(ids(&board, seconds(1)), ["old", "z", "new"]);
    }

    #[test]
    fn lengths_go_on_with_the_clock_of_this_machine_and_stand_while_the_connection_is_lost() {
        let mut board = board([state("a", 1, 10, 2)]);
        let lengths = |board: &Board, now| {
            let state = board.rows(seconds(now)).remove(0).state;
            let left = lease_left(&state, &state.elicitations[0]).unwrap();
            [&state.paused_for, &state.paused_total, &state.longest_lease]
                .map(format::length)
                .map(|l| l.as_secs())
                .into_iter()
                .chain([left.as_secs()])
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(&board, 0), [2, 2, 60, 60]);
        assert_eq!(lengths(&board, 10), [12, 12, 50, 50]);
        assert_eq!(lengths(&board, 100), [102, 102, 0, 0]);
        board.disconnected(seconds(11));
        board.disconnected(seconds(15));
        assert_eq!((lengths(&board, 100), board.lost_at()), (vec![13, 13, 49, 49], Some(seconds(11))));
    }

    #[test]
    fn rows_stay_while_the_connection_is_lost_and_those_that_are_not_reported_again_go() {
        let mut board = board([state("a", 1, 1, 0), state("b", 2, 2, 0)]);
        board.disconnected(seconds(5));
        assert_eq!(ids(&board, seconds(6)), ["a", "b"]);
        board.changed(state("b", 2, 2, 5), seconds(7));
        assert_eq!(ids(&board, seconds(7)), ["a", "b"], "until every thread is reported");
        board.completed();
        assert_eq!((ids(&board, seconds(8)), board.lost_at()), (vec!["b".to_owned()], None));
    }

    #[test]
    fn a_list_brings_leases_and_watchers_of_the_same_revision_only() {
        let mut board = board([state("a", 2, 1, 0)]);
        assert!(!board.knows_watchers());
        board.listed(vec![state("a", 1, 1, 50), state("unknown", 1, 1, 0)], seconds(1));
        assert!(!board.knows_watchers() && board.rows(seconds(1)).len() == 1, "older, and not reported by the watch");
        let before = board.version();
        // Renewed: it lasts a minute from then on.
        board.listed(vec![PauseState { watchers: 3, ..state("a", 2, 1, 50) }], seconds(50));
        let row = board.rows(seconds(50)).remove(0);
        assert_eq!(row.watchers, Some(3));
        assert_eq!(lease_left(&row.state, &row.state.elicitations[0]), Some(seconds(60)));
        assert!(board.knows_watchers() && board.version() != before);
        let before = board.version();
        board.listed(vec![PauseState { watchers: 3, ..state("a", 2, 1, 60) }], seconds(60));
        assert_eq!(board.version(), before, "a renewal is no change");
        board.changed(state("a", 3, 1, 61), seconds(61));
        assert!(board.knows_watchers() && board.version() != before, "known from before");
    }
}
