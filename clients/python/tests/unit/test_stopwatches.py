"""Stopwatches under threads, on a moved clock: limits of 10 s, a disconnect grace of 30 s."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.fake_runtime import wire_state
from support.stopwatch_stage import LOST, Stage, elapsed

from pausewatch.v1 import elicitation_service_pb2 as pb

if TYPE_CHECKING:
    import pytest


def test_g1_it_expires_when_a_confirmation_after_its_time_says_that_the_thread_runs() -> None:
    stage = Stage()
    ticking = stage.linked()
    stage.move_to(9.999)
    assert stage.confirming == []
    stage.move_to(10)
    assert not ticking.is_expired
    stage.answer(wire_state("t", 1))
    assert stage.expiries() == [10]
    assert (elapsed(ticking), ticking.remaining(), ticking.is_paused) == (10, 0, False)
    stage.move_to(100)
    assert elapsed(ticking) == 10, "what it shows stays"


def test_g1_it_stands_still_when_the_confirmation_says_that_the_thread_is_paused() -> None:
    stage = Stage()
    ticking = stage.linked()
    stage.move_to(10)
    stage.answer(wire_state("t", 2, count=1))
    stage.move_to(500)
    assert (stage.ended, ticking.is_paused, elapsed(ticking)) == ([], True, 10)
    stage.stream.state("t", 3, total=490)
    stage.answer(wire_state("t", 3, total=490))
    assert stage.expiries() == [500]


def test_g1_a_confirmation_sent_before_its_time_ran_out_does_not_count() -> None:
    stage = Stage()
    early, late = stage.linked(), stage.start(limit=10.5)
    stage.move_to(10.5)
    stage.answer(wire_state("t", 1))
    assert stage.expiries() == [10.5]
    assert early.is_expired
    assert not late.is_expired, "the answer may be older than an increment that was acknowledged at 10.2"
    stage.answer(wire_state("t", 1))
    assert late.is_expired


def test_stopwatches_of_a_thread_share_one_confirmation() -> None:
    stage = Stage()
    for _ in range(100):
        stage.linked() if not stage.runtime.streams else stage.start()
    stage.move_to(10)
    stage.answer(wire_state("t", 1))
    assert len(stage.expiries()) == 100


def test_g3_a_pause_is_not_charged_and_wakes_no_stopwatch() -> None:
    stage = Stage()
    ticking = stage.linked()
    stage.move_to(3)
    timers = stage.runtime.timers
    stage.stream.state("t", 2, count=1)
    assert stage.runtime.timers == timers, "a pause costs the same for one stopwatch as for a thousand"
    stage.move_to(50)
    assert (ticking.is_paused, elapsed(ticking)) == (True, 3)
    stage.stream.state("t", 3, total=47)
    stage.move_to(56.999)
    assert not stage.confirming
    stage.move_to(57)
    stage.answer(wire_state("t", 3, total=47))
    assert stage.expiries() == [57]


def test_a_stopwatch_that_joins_a_paused_thread_starts_paused_without_earlier_credit() -> None:
    stage = Stage()
    stage.linked(limit=None)
    stage.stream.state("t", 2, count=1)
    stage.move_to(100)
    late = stage.start()
    assert late.is_paused
    stage.move_to(200)
    stage.stream.state("t", 3, total=200)
    stage.move_to(205)
    assert (elapsed(late), late.is_paused) == (5, False)


def test_a_stopwatch_of_a_paused_thread_is_not_charged_for_the_time_that_its_start_takes() -> None:
    stage = Stage()
    stage.move_to(1)
    ticking = stage.start(began_ago=0.009)
    stage.move_to(1.005)
    stage.stream.state("t", 2, count=1, total=1.6)
    stage.move_to(2)
    assert (ticking.is_paused, ticking.elapsed()) == (True, 0)


def test_own_pauses_nest_and_overlap_with_those_of_the_thread() -> None:
    stage = Stage()
    ticking = stage.linked()
    ticking.pause()
    ticking.pause()
    stage.move_to(5)
    ticking.resume()
    stage.stream.state("t", 2, count=1)
    stage.move_to(8)
    ticking.resume()
    stage.move_to(9)
    assert (ticking.is_paused, elapsed(ticking)) == (True, 0)
    stage.stream.state("t", 3, total=4)
    stage.move_to(18.999)
    assert (ticking.is_paused, stage.confirming) == (False, [])
    stage.move_to(19)
    stage.answer(wire_state("t", 3, total=4))
    assert stage.expiries() == [19]


def test_an_own_pause_prevents_expiry_on_a_confirmation() -> None:
    stage = Stage()
    ticking = stage.linked()
    stage.move_to(10)
    ticking.pause()
    stage.answer(wire_state("t", 1))
    stage.move_to(60)
    assert not ticking.is_expired
    ticking.resume()
    stage.answer(wire_state("t", 1))
    assert ticking.is_expired


def test_g3_a_pause_during_a_disconnect_is_credited_after_the_reconnect() -> None:
    stage = Stage()
    ticking = stage.linked()
    stage.move_to(1)
    stage.disconnect()
    assert not ticking.is_linked
    stage.move_to(8)
    assert elapsed(ticking) == 8
    stage.stream.state("t", 3, total=4)
    stage.stream.complete()
    assert ticking.is_linked
    assert elapsed(ticking) == 8, "a standstill until it is made up for"
    stage.move_to(13)
    assert elapsed(ticking) == 9
    stage.move_to(14)
    stage.answer(wire_state("t", 3, total=4))
    assert stage.expiries() == [14]


def test_g1_while_disconnected_it_waits_for_the_link_before_it_expires() -> None:
    stage = Stage()
    ticking = stage.linked()
    stage.move_to(1)
    stage.disconnect()
    stage.move_to(10)
    for lost_at in (11, 14):
        stage.reconnect(lost_at)
        assert stage.confirming == ["t"], "before the set"
        stage.disconnect()
        assert not ticking.is_expired
    stage.reconnect(stage.runtime.seconds)
    stage.answer(wire_state("t", 2, count=1, total=3))
    stage.move_to(43)
    assert (ticking.is_expired, ticking.is_paused) == (False, True)


def test_g2_disconnected_for_longer_than_its_grace_it_expires() -> None:
    stage = Stage()
    stage.linked()
    stage.move_to(1)
    stage.disconnect()
    while not stage.ended:
        stage.move_to(stage.runtime.seconds + 0.01)
        for stream in list(stage.runtime.streams):
            stream.end(LOST)
    [expiry] = stage.expiries()
    assert expiry == 40
    stage.reconnect(50)
    stage.disconnect()
    stage.move_to(stage.runtime.seconds + 2.9)
    assert stage.runtime.streams == [], "and nobody hurries any more"


def test_g1_after_the_coordinator_is_back_a_confirmation_is_requested_within_200_ms() -> None:
    stage = Stage()
    stage.linked()
    stage.move_to(1)
    stage.disconnect()
    stage.move_to(10)
    for _ in range(20):
        stage.reconnect(stage.runtime.seconds)
        now = stage.runtime.seconds
        stage.disconnect()
        stage.reconnect(now)
        assert stage.confirming == ["t"]
        assert stage.runtime.seconds <= now + 0.21


def test_g1_a_forbidden_confirmation_is_not_repeated_and_the_grace_decides() -> None:
    stage = Stage(grace=2)
    stage.linked()
    stage.move_to(10)
    stage.stream.refuse(pb.Refusal(code=7, reason="THREAD_FORBIDDEN", thread_ids=["t"]))
    assert stage.confirming == []
    stage.move_to(11.9)
    assert (stage.ended, len(stage.stream.sent)) == ([], 2)
    stage.move_to(12)
    assert stage.expiries() == [12]


def test_a_thread_that_is_not_watched_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.start()
    for seconds in (1, 2):
        stage.stream.refuse(pb.Refusal(code=7, reason="THREAD_FORBIDDEN", message="not yours", thread_ids=["t"]))
        stage.disconnect()
        stage.reconnect(seconds)
    warned = [record.getMessage() for record in caplog.records if "not watched" in record.getMessage()]
    assert warned == ["a thread is not watched, its timeouts run without its pauses: t: not yours"]


def test_the_link_is_connected_also_if_all_threads_are_refused() -> None:
    stage = Stage()
    stage.linked(limit=100)
    stage.disconnect()
    stage.reconnect(1)
    stage.stream.refuse(pb.Refusal(code=7, reason="THREAD_FORBIDDEN", thread_ids=["t"]))
    stage.move_to(60)
    assert [link.state.value for link in stage.links] == ["connected", "disconnected", "connected"]


def test_g1_a_limit_on_confirmations_is_waited_for() -> None:
    stage = Stage()
    stage.linked()
    stage.move_to(10)
    refusal = pb.Refusal(code=8, reason="LIMIT_EXCEEDED")
    refusal.retry_after.FromSeconds(3)
    stream = stage.stream
    stream.refuse(refusal)
    stage.move_to(12.9)
    assert (stage.confirming, stage.stream) == ([], stream), "the link is not dead"
    stage.move_to(13)
    stage.answer(wire_state("t", 1))
    assert stage.expiries() == [13]


def test_g2_an_unanswered_confirmation_delays_it_by_the_grace_only() -> None:
    stage = Stage(grace=2)
    stage.linked()
    stage.move_to(11.999)
    assert stage.ended == []
    stage.move_to(12)
    assert stage.expiries() == [12]


def test_g1_a_confirmation_gets_its_time_however_short_the_grace() -> None:
    stage = Stage(grace=0)
    ticking = stage.linked()
    stage.move_to(10.2)
    assert not ticking.is_expired
    stage.answer(wire_state("t", 2, count=1))
    stage.stream.state("t", 2, count=1)
    stage.move_to(100)
    assert not ticking.is_expired


def test_g1_a_confirmation_that_was_sent_late_gets_its_time_too() -> None:
    stage = Stage(grace=0)
    stage.linked()
    late = stage.start(limit=10.1)
    stage.move_to(10.2)
    stage.answer(wire_state("t", 1))
    stage.move_to(10.4)
    assert not late.is_expired, "its question began at 10.2"
    stage.answer(wire_state("t", 2, count=1))
    assert not late.is_expired


def test_g2_hanging_confirmations_are_requested_again_and_end() -> None:
    stage = Stage(grace=0)
    stage.linked()
    stage.start(limit=10.1)
    stage.move_to(14)
    [early, late] = stage.expiries()
    assert early == 10.25
    assert 10.35 <= late <= 10.7, "250 ms after its own question, on the next stream"


def test_a_shorter_pause_than_assumed_is_noticed_at_once() -> None:
    stage = Stage()
    stage.linked()
    stage.stream.state("t", 2, count=1)
    stage.move_to(20)
    stage.disconnect()
    stage.reconnect(53)
    stage.stream.state("t", 3, total=21)
    stage.stream.complete()
    assert stage.confirming == ["t"], "its time ran out at 31"


def test_g1_an_own_pause_is_not_charged_if_its_thread_was_not_paused_after_all() -> None:
    stage = Stage()
    stage.linked()
    stage.stream.state("t", 2, count=1)
    stage.disconnect()
    stage.move_to(5)
    late = stage.start(limit=None)
    stage.move_to(6)
    late.pause()
    stage.move_to(10)
    late.resume()
    stage.move_to(12)
    while not stage.runtime.streams:
        stage.move_to(stage.runtime.seconds + 0.1)
    stage.stream.state("t", 3)
    assert elapsed(late) == stage.runtime.seconds - 10


def test_a_stopwatch_that_joins_while_disconnected_uses_no_earlier_paused_time() -> None:
    stage = Stage()
    stage.linked(limit=None)
    stage.move_to(10)
    stage.disconnect()
    stage.move_to(15)
    late = stage.start(limit=None)
    stage.move_to(20)
    stage.stream.state("t", 3, total=6)
    stage.move_to(25)
    assert elapsed(late) == 5, "of the 6 s, none is left over for later"


def test_g1_a_stopwatch_that_joins_while_disconnected_is_not_charged_earlier_assumptions() -> None:
    stage = Stage()
    old = stage.linked(limit=None)
    stage.stream.state("t", 2, count=1)
    stage.move_to(1)
    stage.disconnect()
    # Assumed to be paused up to here, in truth for 1 s.
    stage.move_to(20)
    late = stage.start()
    stage.move_to(21)
    stage.stream.state("t", 3, total=1)
    stage.stream.complete()
    assert (elapsed(old), elapsed(late)) == (20, 1), "whose time it was is charged"
    stage.move_to(30)
    stage.answer(wire_state("t", 3, total=1))
    assert stage.expiries() == [30]


def test_g1_a_stopwatch_that_joins_on_a_dead_link_is_not_charged_earlier_assumptions() -> None:
    stage = Stage()
    stage.linked(limit=None)
    stage.stream.state("t", 2, count=1)
    # It resumes after 1 s. Neither the resume nor the dead link is noticed.
    stage.move_to(9)
    late = stage.start()
    assert (late.is_linked, late.is_paused) == (True, True)
    stage.move_to(10)
    stage.stream.end(LOST)
    stage.move_to(11)
    stage.stream.state("t", 3, total=1)
    stage.stream.complete()
    assert elapsed(late) == 2
    stage.move_to(19)
    stage.answer(wire_state("t", 3, total=1))
    assert stage.expiries() == [19]


def test_g2_paused_and_then_disconnected_it_continues_after_the_grace() -> None:
    stage = Stage()
    ticking = stage.linked()
    stage.stream.state("t", 2, count=1)
    stage.move_to(20)
    stage.disconnect()
    stage.move_to(49.9)
    assert ticking.is_paused
    stage.move_to(50)
    assert not ticking.is_paused
    stage.move_to(55)
    assert elapsed(ticking) == 5


def test_without_a_limit_it_never_expires_and_no_confirmation_is_requested() -> None:
    stage = Stage()
    ticking = stage.linked(limit=None)
    stage.move_to(86_400)
    assert (ticking.is_expired, ticking.remaining(), elapsed(ticking)) == (False, None, 86_400)


def test_a_limit_of_zero_is_confirmed_too() -> None:
    for limit in (0, -5):
        stage = Stage()
        stage.start(limit=limit)
        assert stage.ended == []
        stage.stream.state("t", 1, count=0)
        stage.stream.complete()
        stage.answer(wire_state("t", 1, count=1))
        assert stage.ended == []


def test_a_stopped_stopwatch_does_not_expire_and_its_thread_lingers() -> None:
    stage = Stage()
    ticking = stage.linked()
    stage.move_to(4)
    ticking.stop()
    ticking.stop()
    assert (len(stage.ended), ticking.is_expired, elapsed(ticking)) == (1, False, 4)
    stage.move_to(33)
    assert len(stage.runtime.streams) == 1, "the next command starts with exact knowledge"
    again = stage.start()
    assert again.is_linked
    stage.move_to(40)
    again.stop()
    stage.move_to(69.9)
    assert len(stage.runtime.streams) == 1
    stage.move_to(70)
    assert (stage.runtime.streams, stage.runtime.timers) == ([], 0)


def test_a_thousand_threads_share_one_stream() -> None:
    stage = Stage()
    for number in range(1_000):
        stage.start(f"thread-{number}")
    [stream] = stage.runtime.streams
    while (request := stream.request) is not None:
        for thread_id in request.add:
            stream.state(thread_id, 1)
        stream.complete()
    assert len(stream.watched) == 1_000
    assert [len(request.add) for request in stream.sent] == [1, 500, 499]


def test_a_thousand_that_run_out_together_share_three_confirmations() -> None:
    stage = Stage()
    for number in range(1_000):
        stage.start(f"thread-{number}")
    [stream] = stage.runtime.streams
    while stream.request is not None:
        stream.complete()
    stage.move_to(10)
    while stage.confirming:
        stage.answer(*(wire_state(thread_id, 1) for thread_id in stage.confirming))
    assert stage.expiries() == [10] * 1_000
    assert [len(request.confirm) for request in stream.sent if request.confirm] == [1, 500, 499]


def test_g2_an_unconfirmed_pause_leaves_the_confirmation_nothing_of_the_grace() -> None:
    stage = Stage(grace=5)
    stage.linked(limit=3)
    stage.move_to(1)
    stage.stream.state("t", 2, count=1)
    stage.move_to(2)
    stage.disconnect()
    stage.move_to(20)
    assert stage.expiries() == [9.25], "1 s, the pause until 7, its other 2 s, and the least time of a question"


def test_g2_the_grace_of_a_silent_dead_link_counts_from_the_last_message() -> None:
    stage = Stage(grace=20)
    stage.linked(limit=3)
    stage.move_to(1)
    stage.stream.state("t", 2, count=1)
    stage.connected = False
    stage.move_to(40)
    [expiry] = stage.expiries()
    assert 33 <= expiry <= 33.4, (
        "noticed after 30 s of silence, when its time had run out at 23; and the time for a late question"
    )


def test_g1_a_process_that_was_stopped_asks_on_a_new_stream_before_a_stopwatch_expires() -> None:
    stage = Stage(grace=1)
    ticking = stage.linked(limit=5)
    stage.runtime.stall(60)
    stage.disconnect()
    stage.reconnect(61.5)
    assert stage.expiries() == []
    stage.answer(wire_state("t", 2, count=1, total=50))
    stage.stream.state("t", 2, count=1, total=50)
    stage.stream.complete()
    stage.connected = True
    stage.move_to(100)
    assert (stage.expiries(), ticking.is_paused) == ([], True)
