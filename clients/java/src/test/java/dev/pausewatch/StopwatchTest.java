package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class StopwatchTest {
    private static final Duration GRACE = Duration.ofSeconds(30);

    private final ManualTimer timer = new ManualTimer();
    private final Questions questions = new Questions(timer);
    private final ThreadClock thread = new ThreadClock("t", timer, GRACE.toNanos(), questions);

    private final List<Stopwatch> expired = new ArrayList<>();
    private long revision;

    private static Duration s(double seconds) {
        return Duration.ofMillis(Math.round(1_000 * seconds));
    }

    private Stopwatch started(double limit) {
        Stopwatch[] stopwatch = new Stopwatch[1];
        stopwatch[0] =
                new Stopwatch(timer, thread, s(limit).toNanos(), Optional.empty(), () -> expired.add(stopwatch[0]));
        stopwatch[0].start();
        timer.settle();
        return stopwatch[0];
    }

    private PauseState state(boolean paused, double total) {
        return new PauseState(
                "t", paused ? 1 : 0, paused, ++revision, s(total), Optional.empty(), Optional.empty(), List.of(), 1);
    }

    private void watched(boolean paused, double total) {
        thread.apply(state(paused, total), 0);
    }

    private void answer(boolean paused, double total) {
        answer(questions.send(thread), paused, total);
    }

    private void answer(long asked, boolean paused, double total) {
        thread.apply(state(paused, total), 0);
        thread.confirmed(asked);
        timer.settle();
    }

    /** The question was sent, and its stream is lost. */
    private void fail() {
        questions.send(thread);
        thread.disconnect(0);
        timer.settle();
    }

    private int asked() {
        return questions.waiting().size();
    }

    private static Duration elapsed(Stopwatch stopwatch) {
        return Duration.ofNanos(stopwatch.read().elapsed());
    }

    @Test
    void g1TheCoordinatorConfirmsBeforeAnExpiry() {
        watched(false, 0);
        Stopwatch stopwatch = started(10);
        timer.advance(s(9.999));
        assertEquals(0, asked());
        timer.advance(s(0.001));
        assertEquals(1, asked());
        assertFalse(stopwatch.read().endedBy().isPresent());
        answer(false, 0);
        assertEquals(List.of(stopwatch), expired);
        Stopwatch.Reading atEnd = stopwatch.read();
        timer.advance(s(5));
        assertEquals(atEnd, stopwatch.read(), "it does not go on after its end");
    }

    @Test
    void g1AnIncrementNotYetReportedPreventsExpiry() {
        watched(false, 0);
        Stopwatch stopwatch = started(10);
        timer.advance(s(10));
        answer(true, 1);
        assertTrue(stopwatch.read().paused());
        timer.advance(s(1_000));
        assertEquals(List.of(), expired);
        // 1,001 s paused in all: 1 s of the 10 is left.
        watched(false, 1_001);
        timer.advance(s(0.999));
        assertEquals(0, asked());
        timer.advance(s(0.001));
        answer(false, 1_001);
        assertEquals(List.of(stopwatch), expired);
    }

    @Test
    void g1APauseOfItsOwnIsNotChargedWhenItsThreadWasNotPausedAfterAll() {
        watched(true, 0);
        thread.disconnect(0);
        timer.advance(s(5));
        Stopwatch late = started(1_000);
        timer.advance(s(1));
        late.pause();
        timer.advance(s(4));
        late.resume();
        timer.advance(s(2));
        watched(false, 0);
        assertEquals(s(2), elapsed(late));
    }

    @Test
    void g1AfterAStallItAsksEvenWithoutAGraceAndAStream() {
        ThreadClock strict = new ThreadClock("t", timer, 0, questions);
        strict.apply(state(false, 0), 0);
        new Stopwatch(timer, strict, s(10).toNanos(), Optional.empty(), () -> expired.add(null)).start();
        timer.advance(s(1));
        timer.stall(s(20));
        questions.stream = false;
        strict.disconnect(0);
        timer.advance(s(0));
        assertEquals(1, asked());
        timer.advance(s(1.999));
        assertEquals(0, expired.size(), "it found that late");
        timer.advance(s(0.001));
        assertEquals(1, expired.size());
    }

    @Test
    void g1AnEarlierConfirmationDoesNotCount() {
        watched(false, 0);
        Stopwatch early = started(10);
        Stopwatch late = started(10.1);
        timer.advance(s(10));
        long asked = questions.send(thread);
        timer.advance(s(0.1));
        answer(asked, false, 0);
        assertEquals(List.of(early), expired);
        assertEquals(1, asked());
        answer(false, 0);
        assertEquals(List.of(early, late), expired);
    }

    @Test
    void stopwatchesThatRunOutTogetherShareOneConfirmation() {
        watched(false, 0);
        for (int i = 0; i < 1_000; i++) {
            started(10);
        }
        timer.advance(s(10));
        assertEquals(1, asked());
        answer(false, 0);
        assertEquals(1_000, expired.size());
        assertEquals(0, asked());
    }

    @Test
    void g3ItIsPausedWhileItsThreadIs() {
        watched(false, 0);
        Stopwatch stopwatch = started(10);
        timer.advance(s(4));
        watched(true, 0);
        timer.advance(s(60));
        assertEquals(s(4), elapsed(stopwatch));
        assertTrue(stopwatch.read().paused());
        watched(false, 60);
        timer.advance(s(6));
        answer(false, 60);
        assertEquals(List.of(stopwatch), expired);
    }

    @Test
    void aPausePutsNobodyToWork() {
        watched(false, 0);
        for (int i = 0; i < 1_000; i++) {
            started(10);
        }
        int alarms = timer.alarms();
        watched(true, 0);
        assertEquals(alarms, timer.alarms(), "each finds out when its alarm comes");
        timer.advance(s(10));
        assertEquals(0, timer.alarms(), "then it waits to be told");
        watched(false, 10);
        assertEquals(1_000, timer.alarms());
    }

    @Test
    void aLateJoinStartsPausedAndIsNotCreditedThePast() {
        watched(true, 500);
        timer.advance(s(7));
        Stopwatch stopwatch = started(10);
        timer.advance(s(100));
        assertTrue(stopwatch.read().paused());
        assertEquals(s(0), elapsed(stopwatch));
        watched(false, 607);
        timer.advance(s(9.999));
        assertEquals(0, asked());
        timer.advance(s(0.001));
        assertEquals(1, asked());
    }

    @Test
    void theFirstStateCorrectsAnEarlierJoin() {
        Stopwatch stopwatch = started(10);
        timer.advance(s(2));
        watched(true, 500);
        assertEquals(s(0), elapsed(stopwatch), "paused since before it began");
        timer.advance(s(5));
        watched(false, 505);
        timer.advance(s(10));
        answer(false, 505);
        assertEquals(List.of(stopwatch), expired);
    }

    @Test
    void g1AJoinWhileDisconnectedIsNotChargedForEarlierAssumptions() {
        watched(true, 0);
        timer.advance(s(1));
        thread.disconnect(0);
        // Assumed to be paused up to here, in truth for 1 s.
        timer.advance(s(19));
        Stopwatch stopwatch = started(10);
        timer.advance(s(1));
        thread.apply(state(false, 1), 0);
        timer.settle();
        assertEquals(s(1), elapsed(stopwatch));
        timer.advance(s(8.999));
        assertEquals(0, asked());
        timer.advance(s(0.001));
        answer(false, 1);
        assertEquals(List.of(stopwatch), expired);
    }

    @Test
    void g1AJoinOnADeadLinkIsNotChargedForEarlierAssumptions() {
        watched(true, 0);
        // It ran again after 1 s, and nobody is told that the link is dead.
        timer.advance(s(9));
        Stopwatch stopwatch = started(5);
        timer.advance(s(1));
        thread.disconnect(0);
        thread.apply(state(false, 1), 0);
        timer.settle();
        assertEquals(s(1), elapsed(stopwatch));
        timer.advance(s(4));
        answer(false, 1);
        assertEquals(List.of(stopwatch), expired);
    }

    @Test
    void itsOwnPausesNestAndCountOnceWithItsThreads() {
        watched(false, 0);
        Stopwatch stopwatch = started(10);
        timer.advance(s(1));
        stopwatch.pause();
        stopwatch.pause();
        timer.advance(s(20));
        stopwatch.resume();
        watched(true, 0);
        timer.advance(s(20));
        stopwatch.resume();
        timer.advance(s(20));
        assertEquals(s(1), elapsed(stopwatch));
        watched(false, 40);
        assertFalse(stopwatch.read().paused());
        timer.advance(s(9));
        answer(false, 40);
        assertEquals(List.of(stopwatch), expired);
    }

    @Test
    void anOwnPauseDuringTheConfirmationPreventsExpiry() {
        watched(false, 0);
        Stopwatch stopwatch = started(10);
        timer.advance(s(10));
        stopwatch.pause();
        answer(false, 0);
        assertEquals(List.of(), expired);
        stopwatch.resume();
        timer.settle();
        assertEquals(List.of(stopwatch), expired, "the answer was given after its time ran out");
    }

    @Test
    void cutOffItWaitsForTheLinkAsLongAsTheGrace() {
        watched(false, 0);
        Stopwatch stopwatch = started(10);
        thread.disconnect(0);
        timer.advance(s(10));
        for (int tenth = 0; tenth < 1_000 && expired.isEmpty(); tenth++) {
            if (asked() > 0) {
                fail();
            }
            timer.advance(s(0.1));
        }
        assertTrue(elapsed(stopwatch).compareTo(s(40)) >= 0, "not before its grace: " + elapsed(stopwatch));
        assertTrue(elapsed(stopwatch).compareTo(s(42)) <= 0, "soon after its grace: " + elapsed(stopwatch));
        assertEquals(List.of(stopwatch), expired);
    }

    @Test
    void g1ALinkThatComesBackWithinTheGraceSavesIt() {
        watched(false, 0);
        Stopwatch stopwatch = started(10);
        thread.disconnect(0);
        timer.advance(s(10));
        fail();
        timer.advance(s(5));
        thread.apply(state(true, 9), 0);
        timer.advance(s(1_000));
        assertEquals(List.of(), expired);
        assertTrue(stopwatch.read().paused());
    }

    @Test
    void g2APauseThatCannotBeSeenToEndEnds() {
        watched(true, 0);
        Stopwatch stopwatch = started(10);
        timer.advance(s(5));
        thread.disconnect(0);
        timer.advance(GRACE);
        assertFalse(stopwatch.read().paused());
        timer.advance(s(10));
        answer(false, 35);
        assertEquals(List.of(stopwatch), expired);
    }

    @Test
    void anAnswerThatNeverComesIsWaitedForAsLongAsTheGrace() {
        watched(false, 0);
        Stopwatch stopwatch = started(10);
        timer.advance(s(10).plus(GRACE).minusMillis(1));
        assertEquals(List.of(), expired);
        timer.advance(s(0.001));
        assertEquals(List.of(stopwatch), expired);
    }

    @Test
    void stoppedItLeavesNothingBehind() {
        watched(false, 0);
        Stopwatch stopwatch = started(10);
        timer.advance(s(1));
        stopwatch.stop();
        Stopwatch.Reading atEnd = stopwatch.read();
        timer.advance(s(100));
        assertEquals(atEnd, stopwatch.read());
        assertEquals(s(1), elapsed(stopwatch));
        assertEquals(List.of(), expired);
        assertEquals(0, timer.alarms());
        assertEquals(0, asked());
    }

    @Test
    void theLongestLimitIsSafe() {
        Stopwatch[] stopwatch = new Stopwatch[1];
        stopwatch[0] = new Stopwatch(timer, thread, Nanos.MAX, Optional.empty(), () -> expired.add(stopwatch[0]));
        stopwatch[0].start();
        watched(false, 0);
        timer.advance(Duration.ofDays(3_650));
        assertEquals(Duration.ofDays(3_650), elapsed(stopwatch[0]));
        assertEquals(List.of(), expired);
    }

    @Test
    void g2AnUnconfirmedPauseUsesTheGraceOfTheConfirmation() {
        watched(false, 0);
        Stopwatch stopwatch = started(3);
        timer.advance(s(1));
        watched(true, 0);
        timer.advance(s(1));
        thread.disconnect(0);
        // 1 s, the pause until one grace after 2 s, its other 2 s, and the least time of a question.
        timer.advance(GRACE.plus(s(2.2)));
        assertFalse(stopwatch.read().endedBy().isPresent());
        timer.advance(s(0.1));
        assertTrue(stopwatch.read().endedBy().isPresent());
    }

    @Test
    void g2OfALinkThatDiedInSilenceTheGraceCountsFromTheLastMessage() {
        watched(false, 0);
        Stopwatch stopwatch = started(3);
        timer.advance(s(1));
        watched(true, 0);
        timer.advance(GRACE);
        thread.disconnect(GRACE.toNanos());
        timer.advance(s(2.2));
        assertFalse(stopwatch.read().endedBy().isPresent());
        timer.advance(s(0.1));
        assertTrue(stopwatch.read().endedBy().isPresent());
    }
}
