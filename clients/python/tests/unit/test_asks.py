"""What is known of the questions to the coordinator."""

from __future__ import annotations

from pausewatch._stopwatch.asks import Answered, Asks, Failed, NotYet, UnderWay


def test_g1_an_answer_counts_only_for_questions_that_began_late_enough() -> None:
    asks = Asks()
    assert asks.since(5) == NotYet()
    assert asks.wanted(5, now=6)
    assert asks.since(6) == UnderWay(6, failed_before=False)
    assert asks.since(7) == NotYet(), "it may have missed an increment that was acknowledged at 7"
    assert not asks.over(answered=True, now=9)
    assert (asks.since(6), asks.since(7)) == (Answered(), NotYet())


def test_one_question_is_under_way_at_a_time_and_is_asked_again_for_who_came_late() -> None:
    asks = Asks()
    assert asks.wanted(5, now=5)
    assert not asks.wanted(5, now=6), "the one under way will do"
    assert not asks.over(answered=True, now=7)
    assert asks.wanted(8, now=8)
    assert not asks.wanted(9, now=9)
    assert asks.over(answered=True, now=10), "the one under way began too early"
    assert asks.since(9) == UnderWay(10, failed_before=False)


def test_a_failed_question_is_told_with_the_one_after_it() -> None:
    asks = Asks()
    asks.wanted(5, now=5)
    asks.over(answered=False, now=6)
    assert asks.since(5) == Failed()
    asks.wanted(5, now=7)
    assert asks.since(5) == UnderWay(7, failed_before=True)
    asks.over(answered=True, now=8)
    assert asks.since(5) == Answered()
