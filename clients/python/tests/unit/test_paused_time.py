"""How long a thread has been paused as far as is known, on a moved clock. Moments and lengths are seconds."""

from __future__ import annotations

from pausewatch._io.durations import SECOND
from pausewatch._stopwatch.paused_time import Asked, Moment, PausedTimeTracker, Seen, Version, Watched

WATCH = Watched(gap=False)
GAP = Watched(gap=True)
HOUR = 3_600
EPOCH = 1


def asked(revision: int) -> Asked:
    """By a question that was put when this revision was known."""
    return Asked(Version(EPOCH, revision))


class Thread:
    """A tracker that started at 0, with a grace of 30 s."""

    def __init__(self) -> None:
        self.tracker = PausedTimeTracker(0, 30 * SECOND)
        # Of the states that are applied next.
        self.epoch = EPOCH

    def apply(self, at: int, revision: int, paused: bool, total: int, via: Watched | Asked, slept: int = 0) -> bool:
        seen = Seen(Version(self.epoch, revision), paused, total * SECOND)
        return self.tracker.apply(Moment(at * SECOND, slept * SECOND), seen, via)

    def disconnect(self, at: int) -> bool:
        return self.tracker.disconnect(at * SECOND, at * SECOND)

    def paused_time(self, at: int) -> float:
        return self.tracker.paused_time(at * SECOND) / SECOND

    def paused(self, at: int) -> bool:
        return self.tracker.is_paused(at * SECOND)


def test_g3_paused_time_follows_the_total_and_runs_on_while_paused() -> None:
    thread = Thread()
    thread.apply(0, 4, False, 100, GAP)
    assert (thread.paused_time(9), thread.paused(9)) == (0, False)
    thread.apply(10, 5, True, 100, WATCH)
    assert (thread.paused_time(13), thread.paused(13)) == (3, True)
    thread.apply(14, 6, False, 104, WATCH)
    assert (thread.paused_time(20), thread.paused(20)) == (4, False)


def test_the_first_state_credits_no_more_than_the_time_since_the_beginning() -> None:
    paused = Thread()
    paused.apply(2, 9, True, HOUR, GAP)
    assert (paused.paused_time(2), paused.paused_time(5)) == (2, 5)
    less = Thread()
    less.apply(9, 9, False, 4, GAP)
    assert less.paused_time(20) == 4


def test_g3_a_pause_within_a_break_is_credited_afterwards() -> None:
    thread = Thread()
    thread.apply(0, 1, False, 0, GAP)
    assert not thread.disconnect(10), "nobody waits for the resume of a running thread"
    assert thread.paused_time(25) == 0
    assert thread.apply(25, 3, False, 9, GAP), "waiters look again"
    assert thread.paused_time(30) == 9


def test_g3_a_pause_that_ended_within_a_break_is_credited_to_its_end_only() -> None:
    thread = Thread()
    thread.apply(0, 1, True, 0, GAP)
    assert thread.disconnect(10), "those who wait for the resume must now see to themselves"
    assert thread.paused_time(25) == 25
    assert thread.apply(25, 2, False, 12, GAP)
    assert (thread.paused_time(25), thread.paused_time(40)) == (12, 12)


def test_g2_cut_off_a_pause_counts_for_the_grace_only() -> None:
    thread = Thread()
    thread.apply(0, 1, True, 0, GAP)
    thread.disconnect(10)
    assert (thread.paused(39), thread.paused(40), thread.paused_time(100)) == (True, False, 40)
    thread.apply(100, 1, True, 100, GAP)
    assert (thread.paused(100), thread.paused_time(101)) == (True, 101), "the pause was real: all of it is credited"


def test_g3_a_snapshot_that_an_answer_has_overtaken_changes_nothing() -> None:
    thread = Thread()
    thread.apply(0, 1, False, 0, GAP)
    thread.disconnect(10)
    assert thread.apply(20, 3, False, 4, asked(1))
    # Its stream was opened before the answer was given.
    assert thread.apply(25, 2, True, 3, GAP), "the link is up again: waiters look again"
    assert (thread.paused_time(26), thread.paused(26), thread.tracker.valid_until) == (4, False, None)
    thread.apply(27, 3, False, 4, WATCH)
    assert (thread.paused_time(30), thread.paused(30)) == (4, False)


def test_g3_the_first_snapshot_may_be_overtaken_too_and_who_joined_has_a_place() -> None:
    thread = Thread()
    thread.apply(1, 2, True, 0, Asked(known=None))
    _, joined = thread.tracker.join(3 * SECOND)
    thread.apply(5, 1, False, 0, GAP)
    assert (thread.paused_time(5), thread.paused(5)) == (4, True), "the pause goes on"
    assert joined.place == (5 * SECOND, 4 * SECOND)


def test_g3_of_two_views_of_one_pause_the_older_changes_nothing() -> None:
    thread = Thread()
    thread.apply(0, 1, False, 0, GAP)
    thread.apply(10, 2, True, 6, WATCH)
    thread.apply(11, 2, True, 3, asked(1))
    assert (thread.paused_time(12), thread.paused(12)) == (8, True), "the answer was on its way for long"
    thread.disconnect(12)
    thread.apply(14, 2, True, 10, asked(2))
    thread.apply(15, 2, True, 8, GAP)
    assert (thread.paused_time(15), thread.tracker.valid_until) == (11, None), "so was the snapshot"
    thread.apply(16, 3, False, 12, WATCH)
    assert thread.paused_time(20) == 12


def test_a_revision_below_what_the_watch_has_told_means_lost_state_whatever_was_asked_for() -> None:
    thread = Thread()
    thread.apply(0, 7, False, 0, GAP)
    thread.disconnect(10)
    thread.apply(12, 9, False, 2, asked(7))
    thread.apply(20, 1, True, 0, GAP)
    assert (thread.paused_time(23), thread.paused(23)) == (5, True), "what was credited stays, and counts on"


def test_g2_an_answer_while_the_watch_is_cut_counts_for_one_more_grace() -> None:
    thread = Thread()
    thread.apply(0, 1, False, 0, GAP)
    thread.disconnect(10)
    thread.apply(20, 2, True, 5, asked(1))
    assert (thread.paused(49), thread.paused(50), thread.paused_time(60)) == (True, False, 35)


def test_a_server_that_lost_its_state_takes_no_paused_time_back() -> None:
    thread = Thread()
    thread.apply(0, 7, True, 50, GAP)
    thread.apply(10, 8, False, 60, WATCH)
    thread.disconnect(10)
    thread.apply(20, 1, True, 3, GAP)
    assert (thread.paused_time(20), thread.paused_time(25)) == (13, 18), "10 s before the loss, 3 s since, 5 s more"
    thread.apply(30, 0, True, 13, GAP)
    assert thread.paused_time(30) == 23, "the total is higher by chance; the revision tells"


def test_states_that_are_overtaken_are_ignored_and_lost_state_is_not() -> None:
    thread = Thread()
    thread.apply(0, 5, False, 0, GAP)
    thread.apply(1, 7, True, 0, asked(5))
    assert not thread.apply(1, 6, False, 0, WATCH)
    assert thread.paused(1), "revision 6 was on its way when 7 was asked for"
    thread.apply(2, 6, False, 0, asked(5))
    assert thread.paused(2), "so was this answer"
    thread.apply(2, 6, False, 0, Asked(known=None))
    assert thread.paused(2), "and this one, asked for when nothing was known"
    thread.apply(3, 1, False, 0, asked(7))
    assert not thread.paused(3), "an answer below what was known before the question is of another life"


def test_g3_a_sleep_of_the_machine_within_a_pause_pays_for_nothing() -> None:
    thread = Thread()
    thread.apply(0, 1, False, 0, GAP, slept=7)
    thread.apply(600, 2, True, 0, WATCH, slept=7)
    thread.apply(640, 3, False, HOUR + 10, GAP, slept=7 + HOUR)
    assert thread.paused_time(640) == 10, "of 40 s awake, 10 s were paused"
    thread.apply(660, 5, False, 2 * HOUR, GAP, slept=7 + 2 * HOUR)
    assert thread.paused_time(660) == 30, "fell asleep running: no more than the time awake"


def test_g3_a_state_that_a_sleep_of_the_machine_overtook_is_credited_whole() -> None:
    thread = Thread()
    thread.apply(0, 1, True, 0, GAP, slept=7)
    thread.apply(22, 2, True, 20, WATCH, slept=7 + HOUR)
    assert thread.paused_time(22) == 20, "sent at 20; the machine slept for an hour at 21"
    thread.apply(30, 3, False, HOUR + 30, WATCH, slept=7 + HOUR)
    assert thread.paused_time(40) == 30
    thread.apply(50, 4, True, HOUR + 30, WATCH, slept=7 + HOUR)
    thread.apply(60, 5, False, HOUR + 39, WATCH, slept=107 + HOUR)
    assert thread.paused_time(60) == 39, "resumed, then the sleep, then the news of it"
    thread.apply(70, 6, True, HOUR + 39, WATCH, slept=207 + HOUR)
    thread.apply(80, 7, False, HOUR + 49, WATCH, slept=207 + HOUR)
    assert thread.paused_time(80) == 49, "a sleep while it ran is none of the next pause"
    thread.apply(90, 8, True, HOUR + 49, WATCH, slept=307 + HOUR)
    thread.apply(100, 9, True, HOUR + 109, WATCH, slept=357 + HOUR)
    thread.apply(105, 10, False, HOUR + 114, WATCH, slept=357 + HOUR)
    assert thread.paused_time(105) == 64, "two of them, the second of which is in the pause"


def test_who_joins_gets_its_place_with_the_next_state() -> None:
    thread = Thread()
    thread.apply(0, 1, False, 0, GAP)
    thread.disconnect(10)
    paused_time, joined = thread.tracker.join(15 * SECOND)
    assert (paused_time, joined.place) == (0, None)
    thread.apply(20, 3, False, 10, GAP)
    assert joined.place == (20 * SECOND, 10 * SECOND)
    _, later = thread.tracker.join(21 * SECOND)
    assert later.place is None, "who joins later waits for a state of its own, though the link seems to be up"


def test_g3_a_lost_total_that_is_exceeded_meanwhile_is_credited_in_full() -> None:
    thread = Thread()
    thread.apply(0, 1, False, 0, GAP)
    thread.apply(10, 2, True, 0, WATCH)
    thread.apply(12, 3, False, 2, WATCH)
    thread.disconnect(20)
    # Lost 2 s; a pause began 4 s ago, so that the total exceeds the lost one.
    thread.epoch = 2
    thread.apply(25, 900, True, 4, GAP)
    assert (thread.paused_time(25), thread.paused_time(33)) == (6, 14)
    thread.apply(34, 901, False, 13, WATCH)
    assert thread.paused_time(40) == 15


def test_g3_a_pause_on_both_sides_of_a_loss_is_credited_beyond_the_grace() -> None:
    thread = Thread()
    thread.apply(0, 1, False, 0, GAP)
    thread.apply(10, 2, True, 0, WATCH)
    thread.disconnect(20)
    thread.epoch = 2
    # Paused for 10 s until the disconnect, again since 25.
    thread.apply(100, 900, True, 75, GAP)
    assert (thread.paused_time(100), thread.paused_time(101)) == (85, 86)


def test_a_pause_that_a_loss_ended_keeps_what_was_assumed() -> None:
    thread = Thread()
    thread.apply(0, 1, True, 0, GAP)
    thread.disconnect(10)
    thread.epoch = 2
    assert thread.apply(15, 900, False, 0, GAP), "waiters for the resume look again"
    assert (thread.paused_time(15), thread.paused_time(30)) == (15, 15)


def test_an_epoch_that_was_left_does_not_come_back_by_late_states() -> None:
    thread = Thread()
    thread.apply(0, 7, True, 0, GAP)
    thread.epoch = 2
    thread.apply(4, 900, False, 0, asked(7))
    assert (thread.paused_time(9), thread.paused(9)) == (4, False)
    thread.epoch = EPOCH
    thread.apply(5, 8, True, 5, WATCH)
    assert not thread.paused(5), "this state was on its way when the answer came"
    thread.apply(5, 8, True, 5, asked(7))
    assert not thread.paused(5), "this answer was on its way too"
    thread.epoch = 3
    thread.apply(6, 1_000, True, 0, asked(7))
    assert thread.paused(6), "the server lost its state twice while this question was open"
    # The operator went back to the first store, and the watch says so.
    thread.epoch = EPOCH
    thread.disconnect(8)
    thread.apply(9, 8, False, 5, GAP)
    assert (thread.paused(9), thread.paused_time(12)) == (False, 7)


def test_revisions_are_bounds_within_their_epoch_only() -> None:
    thread = Thread()
    thread.apply(0, 900, False, 0, GAP)
    thread.disconnect(1)
    thread.epoch = 2
    thread.apply(2, 7, True, 0, asked(900))
    # Its stream was opened before the answer; that its revision is lower says nothing.
    thread.apply(3, 6, False, 0, GAP)
    assert thread.paused(3), "the snapshot is older than the answer"
    thread.apply(4, 8, False, 2, WATCH)
    assert thread.paused_time(9) == 2


def test_states_without_an_epoch_are_compared_by_total_and_revision() -> None:
    thread = Thread()
    thread.epoch = 0
    thread.apply(0, 5, False, 0, GAP)
    thread.apply(5, 6, True, 0, WATCH)
    thread.disconnect(6)
    # The server was upgraded, and kept its store.
    thread.epoch = 2
    thread.apply(10, 7, False, 3, GAP)
    assert thread.paused_time(20) == 3


def test_g2_a_link_that_died_in_silence_was_lost_with_its_last_message() -> None:
    thread = Thread()
    thread.apply(0, 1, True, 0, GAP)
    assert thread.tracker.disconnect(40 * SECOND, 5 * SECOND), "waiters for the resume look again"
    assert (thread.paused(40), thread.paused_time(50)) == (False, 35), "the grace is over"
    # An answer after the last message confirmed the pause.
    asked_later = Thread()
    asked_later.apply(0, 1, True, 0, GAP)
    asked_later.apply(20, 1, True, 20, asked(1))
    asked_later.tracker.disconnect(40 * SECOND, 5 * SECOND)
    assert (asked_later.paused(49), asked_later.paused_time(60)) == (True, 50)


def test_g1_a_pause_counts_until_the_last_join_before_the_link_was_known_to_be_dead() -> None:
    thread = Thread()
    thread.apply(0, 1, True, 0, GAP)
    assert thread.tracker.join(38 * SECOND)[0] == 38 * SECOND
    thread.tracker.disconnect(40 * SECOND, 5 * SECOND)
    assert (thread.paused(38), thread.paused_time(50)) == (False, 38), "else time before the join would be charged"
    thread.tracker.join(45 * SECOND)
    assert thread.paused_time(50) == 38
