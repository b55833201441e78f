package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** A stopwatch of thread "t", with a limit of 10 s, that awaits "child". */
class AwaitThreadTest {
    /** Threads that are heard from the beginning. */
    private static final class Family {
        final ManualTimer timer = new ManualTimer();
        final Questions questions = new Questions(timer);

        final long grace;
        final Map<String, ThreadClock> threads = new HashMap<>();
        long revision = 1;

        Family(double grace) {
            this.grace = s(grace).toNanos();
        }

        ThreadClock silent(String threadId) {
            return threads.computeIfAbsent(threadId, id -> new ThreadClock(id, timer, grace, questions));
        }

        ThreadClock thread(String threadId) {
            if (!threads.containsKey(threadId)) {
                silent(threadId);
                told(threadId, false, 0);
            }
            return threads.get(threadId);
        }

        Stopwatch start(String threadId, String... awaited) {
            Stopwatch stopwatch = new Stopwatch(timer, thread(threadId), s(10).toNanos(), Optional.empty(), () -> {});
            for (String each : awaited) {
                stopwatch.awaitThread(thread(each));
            }
            stopwatch.start();
            timer.settle();
            return stopwatch;
        }

        PauseState state(String threadId, boolean paused, double total) {
            return new PauseState(
                    threadId,
                    paused ? 1 : 0,
                    paused,
                    revision++,
                    s(total),
                    Optional.empty(),
                    Optional.empty(),
                    List.of(),
                    1);
        }

        void told(String threadId, boolean paused, double total) {
            silent(threadId).apply(state(threadId, paused, total), 0);
            timer.settle();
        }

        void disconnect() {
            threads.values().forEach(thread -> thread.disconnect(0));
            timer.settle();
        }

        void answer(Set<String> paused) {
            for (String threadId : List.copyOf(questions.waiting())) {
                // A pause of the one before may have settled it.
                if (questions.waiting().contains(threadId)) {
                    answer(threadId, paused.contains(threadId));
                }
            }
        }

        void answer(String threadId, boolean paused) {
            long asked = questions.send(threads.get(threadId));
            threads.get(threadId).apply(state(threadId, paused, 0), 0);
            threads.get(threadId).confirmed(asked);
            timer.settle();
        }

        void advance(double seconds) {
            timer.advance(s(seconds));
        }
    }

    private static Duration s(double seconds) {
        return Duration.ofMillis(Math.round(1_000 * seconds));
    }

    private static void assertRead(Stopwatch stopwatch, boolean paused, double elapsed) {
        Stopwatch.Reading reading = stopwatch.read();
        assertEquals(s(elapsed), Duration.ofNanos(reading.elapsed()));
        assertEquals(paused, reading.paused());
    }

    private static boolean hasExpired(Stopwatch stopwatch) {
        return stopwatch.read().endedBy().isPresent();
    }

    @Test
    void g3ItIsPausedWhileAnyThreadIsAndOverlapsCountOnce() {
        Family family = new Family(30);
        Stopwatch stopwatch = family.start("t", "child");
        family.advance(2);
        family.told("child", true, 0);
        family.advance(3);
        assertRead(stopwatch, true, 2);
        family.told("t", true, 0);
        family.advance(95);
        family.told("child", false, 98);
        assertRead(stopwatch, true, 2);
        family.advance(100);
        family.told("t", false, 195);
        family.advance(8);
        assertRead(stopwatch, false, 10);
        family.answer(Set.of());
        assertTrue(hasExpired(stopwatch));
    }

    @Test
    void g1EveryThreadIsConfirmedBeforeItExpires() {
        Family family = new Family(30);
        Stopwatch stopwatch = family.start("t", "child", "other");
        family.advance(10);
        assertEquals(Set.of("t", "child", "other"), family.questions.waiting());
        family.answer(Set.of("child"));
        assertFalse(hasExpired(stopwatch));
        assertTrue(stopwatch.read().paused());
        family.advance(40);
        family.told("child", false, 40);
        family.answer(Set.of());
        assertTrue(hasExpired(stopwatch));
    }

    @Test
    void aThreadCountsUntilTheLastWaitForItEnds() {
        Family family = new Family(30);
        Stopwatch stopwatch = family.start("t", "child");
        stopwatch.awaitAgain("child");
        family.advance(1);
        family.told("child", true, 0);
        family.advance(10);
        assertFalse(stopwatch.unawaitThread("child"));
        family.advance(1);
        assertRead(stopwatch, true, 1);
        assertTrue(stopwatch.unawaitThread("child"));
        family.advance(9);
        assertRead(stopwatch, false, 10);
        assertEquals(Set.of("t"), family.questions.waiting());
        family.answer(Set.of());
        assertTrue(hasExpired(stopwatch));
    }

    @Test
    void afterItsEndItLeavesNothingBehind() {
        Family family = new Family(30);
        Stopwatch expired = family.start("t", "child");
        Stopwatch stopped = family.start("t", "child");
        assertEquals(2, family.thread("t").observers());
        family.advance(5);
        stopped.stop();
        family.advance(5);
        family.answer(Set.of());
        assertTrue(hasExpired(expired));
        expired.awaitThread(family.thread("other"));
        for (String threadId : List.of("t", "child", "other")) {
            assertEquals(0, family.thread(threadId).observers(), threadId);
        }
    }

    @Test
    void aCycleFreezesBothWhileEitherIsPaused() {
        Family family = new Family(30);
        Stopwatch one = family.start("t", "child");
        Stopwatch other = family.start("child", "t");
        family.advance(3);
        family.told("child", true, 0);
        family.advance(27);
        assertRead(one, true, 3);
        assertRead(other, true, 3);
    }

    @Test
    void g1OfAGapAsMuchCountsAsIsPossible() {
        for (double[] each : new double[][] {{20, 30, 50}, {50, 40, 60}, {0, 60, 60}, {60, 60, 60}, {0, 0, 0}}) {
            Family family = new Family(120);
            Stopwatch stopwatch = family.start("t", "child");
            family.advance(1);
            family.told("child", true, 0);
            family.advance(2);
            family.told("child", false, 2);
            family.disconnect();
            family.advance(60);
            family.told("t", false, each[0]);
            family.told("child", false, 2 + each[1]);
            assertRead(stopwatch, false, 1 + 60 - each[2]);
        }
    }

    @Test
    void g3PausesSeenBeforeAGapDoNotCountWithinIt() {
        Family family = new Family(120);
        Stopwatch stopwatch = family.start("t", "child");
        family.advance(1);
        family.told("t", true, 0);
        family.told("child", true, 0);
        family.advance(30);
        family.disconnect();
        family.advance(2);
        family.told("t", false, 30);
        family.told("child", false, 30);
        assertRead(stopwatch, false, 3);
    }

    @Test
    void g3NorDoesWhatWasBeforeTheChildWasAwaited() {
        Family family = new Family(120);
        Stopwatch stopwatch = family.start("t");
        family.advance(1);
        family.told("t", true, 0);
        family.advance(20);
        family.told("t", false, 20);
        family.advance(4);
        stopwatch.awaitThread(family.silent("child"));
        family.disconnect();
        family.advance(15);
        family.told("t", false, 30);
        family.told("child", false, 10);
        assertRead(stopwatch, false, 5);
    }

    @Test
    void g2CutOffAChildThatWasPausedCountsForTheGraceWhichIsOneBudget() {
        Family family = new Family(5);
        Stopwatch stopwatch = family.start("t", "child");
        family.advance(1);
        family.told("child", true, 0);
        family.advance(1);
        family.disconnect();
        family.advance(4.9);
        assertRead(stopwatch, true, 1);
        // The pause until 7 s, the other 9 s, and the least time of a question.
        family.advance(16.249 - 6.9);
        assertFalse(hasExpired(stopwatch));
        family.advance(0.001);
        assertTrue(hasExpired(stopwatch));
    }

    @Test
    void g2AnUnconfirmedAwaitedThreadDelaysExpiryByTheGraceAtMost() {
        Family family = new Family(5);
        Stopwatch stopwatch = family.start("t", "child");
        family.advance(10);
        for (double waited = 0; waited < 5; waited += 0.25) {
            assertFalse(hasExpired(stopwatch));
            if (family.questions.waiting().contains("t")) {
                family.answer("t", false);
            }
            family.advance(0.25);
        }
        assertTrue(hasExpired(stopwatch));
    }
}
