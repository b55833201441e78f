package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class MeterTest {
    /** Any moment: clocks may begin below zero. */
    private static final long START = -s(3);

    private final Meter meter = new Meter(s(10), START);

    private static long s(long seconds) {
        return TimeUnit.SECONDS.toNanos(seconds);
    }

    private void assertCharged(long charged, long at, long pausedTime) {
        assertEquals(s(charged), meter.charged(START + s(at), s(pausedTime)));
    }

    private void pause(long at, long pausedTime) {
        meter.pause(START + s(at), s(pausedTime));
    }

    private boolean resume(long at, long pausedTime) {
        return meter.resume(START + s(at), s(pausedTime));
    }

    @Test
    void g3ChargedIsWallTimeLessTheThreadsPausedTime() {
        assertCharged(3, 5, 2);
        assertEquals(0, meter.left(START + s(12), s(2)));
        assertEquals(s(1), meter.left(START + s(11), s(2)));
    }

    @Test
    void pausesNest() {
        pause(1, 0);
        pause(2, 0);
        assertFalse(resume(3, 0));
        assertCharged(1, 4, 0);
        assertTrue(meter.isPaused());
        assertTrue(resume(5, 0));
        assertCharged(2, 6, 0);
    }

    @Test
    void g3OverlappingPausesCountOnceAndNeverBelowZero() {
        // Its own from 0 to 10, the thread's from 5 to 15.
        pause(0, 0);
        resume(10, 5);
        assertCharged(0, 15, 10);
        assertCharged(1, 16, 10);
    }

    @Test
    void aCreditForTheTimeBeforeItsOwnPauseIsNotLost() {
        // Cut off: 4 s were charged, of which 3 were paused; that is learnt 1 s into a pause of its own, and 1 s of the
        // 3 may be the last one.
        pause(4, 0);
        assertCharged(2, 5, 3);
        resume(5, 3);
        assertCharged(3, 6, 3);
    }

    @Test
    void lessPausedTimeThanWasAssumedIsChargedAfterAll() {
        assertCharged(1, 5, 4);
        meter.settle(START + s(5), s(4));
        assertCharged(4, 5, 1);
        pause(5, 4);
        assertCharged(4, 6, 1);
    }

    @Test
    void whatIsShownNeverGoesBackwards() {
        assertEquals(s(5), meter.elapsed(START + s(5), 0));
        assertEquals(s(5), meter.elapsed(START + s(6), s(4)), "late paused time of 4 s is a standstill");
        assertEquals(s(6), meter.elapsed(START + s(10), s(4)));
        assertEquals(0, meter.left(START + s(14), s(4)), "what decides follows the paused time at once");
    }

    @Test
    void moreCreditThanTimeIsNotSpentLater() {
        assertCharged(0, 2, 3_600);
        assertCharged(3, 5, 3_600);
    }

    @Test
    void theEndsOfTheTypesAreSafe() {
        Meter longest = new Meter(Nanos.MAX, START);
        assertEquals(0, longest.charged(START, Nanos.MAX));
        longest.settle(START, Nanos.MAX);
        assertEquals(Nanos.MAX, longest.charged(START, 0));
        assertEquals(0, longest.left(START, 0));
        longest.settle(START, 0);
        assertEquals(Nanos.MAX, longest.charged(START + s(1), 0));
        assertTrue(longest.resume(START, 0), "one resume too many is harmless");
    }
}
