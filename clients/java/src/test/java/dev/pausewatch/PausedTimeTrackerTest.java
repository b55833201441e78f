package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import dev.pausewatch.PausedTimeTracker.Join;
import dev.pausewatch.PausedTimeTracker.LocalTime;
import dev.pausewatch.PausedTimeTracker.ObservedState;
import dev.pausewatch.PausedTimeTracker.Place;
import java.io.IOException;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The figures are in the shared vectors; here is what only this library has. */
class PausedTimeTrackerTest {
    /** Any moment: clocks may begin below zero. */
    private static final long START = -s(5);

    private final PausedTimeTracker tracker = new PausedTimeTracker(START, s(30));

    private static long s(long seconds) {
        return TimeUnit.SECONDS.toNanos(seconds);
    }

    private boolean apply(long at, long revision, boolean paused, long total) {
        return tracker.apply(
                new LocalTime(START + s(at), 0), new ObservedState(new Version(1, revision), paused, s(total), 0));
    }

    private boolean disconnect(long at) {
        return tracker.disconnect(START + s(at), START + s(at));
    }

    private void assertPausedTime(long pausedTime, long at) {
        assertEquals(s(pausedTime), tracker.pausedTime(START + s(at)));
    }

    private boolean isPaused(long at) {
        return tracker.isPaused(START + s(at));
    }

    @Test
    void theSharedVectors() throws IOException {
        for (JsonObject each : Vectors.cases("paused-time.json")) {
            Vectors.known(each, "name", "steps");
            PausedTimeTracker followed = new PausedTimeTracker(START, s(30));
            for (JsonObject step : Vectors.list(each, "steps")) {
                play(followed, step, each.get("name").getAsString());
            }
        }
    }

    private static void play(PausedTimeTracker followed, JsonObject step, String name) {
        Vectors.known(step, "at_ms", "state", "slept_ms", "disconnect", "since_ms", "expect");
        long at = START + Vectors.nanos(step, "at_ms");
        if (step.has("state")) {
            JsonObject state = Vectors.known(step.getAsJsonObject("state"), "epoch", "revision", "paused", "total_ms");
            Version version = new Version(
                    state.get("epoch").getAsLong(), state.get("revision").getAsLong());
            ObservedState seen =
                    new ObservedState(version, state.get("paused").getAsBoolean(), Vectors.nanos(state, "total_ms"), 0);
            followed.apply(new LocalTime(at, step.has("slept_ms") ? Vectors.nanos(step, "slept_ms") : 0), seen);
        } else if (step.has("disconnect")) {
            followed.disconnect(at, step.has("since_ms") ? START + Vectors.nanos(step, "since_ms") : at);
        } else {
            JsonObject expected = Vectors.known(step.getAsJsonObject("expect"), "paused_ms", "paused");
            assertEquals(Vectors.nanos(expected, "paused_ms"), followed.pausedTime(at), name + ": " + step);
            assertEquals(expected.get("paused").getAsBoolean(), followed.isPaused(at), name + ": " + step);
        }
    }

    @Test
    void waitersLookAgainWhenSomethingThatTheyWaitForHasChanged() {
        assertTrue(apply(0, 1, false, 0), "the first state");
        assertFalse(apply(1, 2, true, 0), "nobody waits for a pause");
        assertTrue(apply(2, 3, false, 1), "a resume");
        assertFalse(disconnect(10), "nobody waits for the resume of a running thread");
        assertTrue(apply(20, 4, true, 1), "the link is up again");
        assertTrue(disconnect(30), "those who wait for the resume must now see to themselves");
    }

    @Test
    void theNextStateSetsThePlaceOfAJoin() {
        apply(0, 1, false, 0);
        disconnect(10);
        Join join = tracker.join(START + s(15));
        assertEquals(0, join.pausedTime());
        assertEquals(Optional.empty(), join.joined().place());
        apply(20, 3, false, 10);
        assertEquals(
                Optional.of(new Place(START + s(20), s(10), 0)), join.joined().place());
        assertEquals(
                Optional.empty(),
                tracker.join(START + s(21)).joined().place(),
                "who joins later waits for a state of its own");
    }

    @Test
    void g1APauseCountsUntilTheLastJoinBeforeTheLinkWasKnownToBeDead() {
        apply(0, 1, true, 0);
        assertEquals(s(38), tracker.join(START + s(38)).pausedTime());
        tracker.disconnect(START + s(40), START + s(5));
        assertFalse(isPaused(38));
        assertPausedTime(38, 50);
        tracker.join(START + s(45));
        assertPausedTime(38, 50);
    }

    @Test
    void revisionsAreUnsigned() {
        apply(0, 1, true, 0);
        apply(10, -1, false, 10);
        disconnect(10);
        // 2 is far below 2^64 - 1: lost state, though the total is higher.
        apply(20, 2, true, 13);
        assertPausedTime(20, 20);
    }

    @Test
    void theGreatestTotalIsSafe() {
        tracker.apply(new LocalTime(START, 0), new ObservedState(new Version(1, 1), true, Nanos.MAX, 0));
        assertPausedTime(9, 9);
        tracker.apply(new LocalTime(START + s(9), 0), new ObservedState(new Version(2, 2), false, 0, 0));
        assertPausedTime(9, 9);
    }
}
