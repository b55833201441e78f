package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** The limit on wall time, which no pause and no question extends. */
class MaxWallTest {
    private static final Optional<EndedBy> BY_MAX_WALL = Optional.of(EndedBy.MAX_WALL);

    private final ManualTimer timer = new ManualTimer();
    private final Questions questions = new Questions(timer);
    private final ThreadClock thread = new ThreadClock("t", timer, s(30).toNanos(), questions);
    private final List<EndedBy> ended = new ArrayList<>();

    private static Duration s(double seconds) {
        return Duration.ofMillis(Math.round(1_000 * seconds));
    }

    private Stopwatch started(double limit, double maxWall) {
        Stopwatch[] stopwatch = new Stopwatch[1];
        stopwatch[0] = new Stopwatch(
                timer,
                thread,
                s(limit).toNanos(),
                Optional.of(s(maxWall).toNanos()),
                () -> ended.add(stopwatch[0].read().endedBy().orElseThrow()));
        stopwatch[0].start();
        timer.settle();
        return stopwatch[0];
    }

    private static PauseState state(long revision, boolean paused, double total) {
        return new PauseState(
                "t", paused ? 1 : 0, paused, revision, s(total), Optional.empty(), Optional.empty(), List.of(), 1);
    }

    private void watched(long revision, boolean paused, double total) {
        thread.apply(state(revision, paused, total), 0);
    }

    @Test
    void noPauseExtendsItAndItNeedsNoConfirmation() {
        watched(1, false, 0);
        Stopwatch paused = started(10, 60);
        Stopwatch own = started(10, 60);
        own.pause();
        timer.advance(s(4));
        watched(2, true, 0);
        timer.advance(s(55.999));
        assertEquals(List.of(), ended);
        timer.advance(s(0.001));
        assertEquals(BY_MAX_WALL, paused.read().endedBy());
        assertEquals(BY_MAX_WALL, own.read().endedBy());
        assertEquals(s(4), Duration.ofNanos(paused.read().elapsed()));
        assertEquals(Set.of(), questions.waiting());
        assertEquals(0, timer.alarms());
    }

    @Test
    void noConfirmationExtendsIt() {
        for (boolean failed : new boolean[] {false, true}) {
            watched(1, false, 0);
            Stopwatch stopwatch = started(10, 12);
            timer.advance(s(10));
            if (failed) {
                questions.send(thread);
                thread.disconnect(0);
            }
            timer.advance(s(1.999));
            assertEquals(Optional.empty(), stopwatch.read().endedBy());
            timer.advance(s(0.001));
            assertEquals(BY_MAX_WALL, stopwatch.read().endedBy());
            thread.confirmed(timer.now());
        }
    }

    @Test
    void theEarlierLimitEndsItForEver() {
        watched(1, false, 0);
        Stopwatch limited = started(10, 60);
        Stopwatch stopped = started(10, 60);
        stopped.stop();
        timer.advance(s(10));
        thread.confirmed(questions.send(thread));
        timer.advance(s(100));
        assertEquals(Optional.of(EndedBy.LIMIT), limited.read().endedBy());
        assertEquals(Optional.empty(), stopped.read().endedBy());
        assertEquals(List.of(EndedBy.LIMIT), ended);
    }
}
