package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.pausewatch.PausedTimeTracker.Join;
import dev.pausewatch.PausedTimeTracker.Now;
import dev.pausewatch.PausedTimeTracker.Place;
import dev.pausewatch.PausedTimeTracker.Seen;
import dev.pausewatch.PausedTimeTracker.Via;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class PausedTimeTrackerTest {
    private static final Via WATCH = new Via.Watch(false);
    private static final Via GAP = new Via.Watch(true);
    /** Any moment: clocks may begin below zero. */
    private static final long START = -s(5);

    /** Of the states that a test gives no other. */
    private static final long EPOCH = 1;

    /** Of the states that are applied next. */
    private long epoch = EPOCH;

    private final PausedTimeTracker tracker = new PausedTimeTracker(START, s(30));

    private static long s(long seconds) {
        return TimeUnit.SECONDS.toNanos(seconds);
    }

    private static Via ask(long known) {
        return new Via.Ask(Optional.of(new Version(EPOCH, known)));
    }

    private static Seen seen(long epoch, long revision, boolean paused, long total) {
        return new Seen(new Version(epoch, revision), paused, total);
    }

    private boolean apply(long at, long revision, boolean paused, long total, Via via) {
        return tracker.apply(new Now(START + s(at), 0), seen(epoch, revision, paused, s(total)), via);
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
    void g3PausedTimeFollowsTheTotalAndRunsOnWhilePaused() {
        apply(0, 4, false, 100, GAP);
        assertPausedTime(0, 9);
        assertFalse(isPaused(9));
        apply(10, 5, true, 100, WATCH);
        assertPausedTime(3, 13);
        assertTrue(isPaused(13));
        apply(14, 6, false, 104, WATCH);
        assertPausedTime(4, 20);
        assertFalse(isPaused(20));
    }

    @Test
    void theFirstStateCreditsNoMoreThanTheTimeSinceTheBeginning() {
        apply(2, 9, true, 3_600, GAP);
        assertPausedTime(2, 2);
        assertPausedTime(5, 5);
    }

    @Test
    void theFirstStateCreditsNoMoreThanItsTotal() {
        apply(9, 9, false, 4, GAP);
        assertPausedTime(4, 20);
    }

    @Test
    void g3APauseWithinABreakIsCreditedAfterwards() {
        apply(0, 1, false, 0, GAP);
        assertFalse(disconnect(10), "nobody waits for the resume of a running thread");
        assertPausedTime(0, 25);
        assertTrue(apply(25, 3, false, 9, GAP), "waiters look again");
        assertPausedTime(9, 30);
    }

    @Test
    void g3APauseThatEndedWithinABreakIsCreditedToItsEndOnly() {
        apply(0, 1, true, 0, GAP);
        assertTrue(disconnect(10), "those who wait for the resume must now see to themselves");
        assertPausedTime(25, 25);
        assertTrue(apply(25, 2, false, 12, GAP));
        assertPausedTime(12, 25);
        assertPausedTime(12, 40);
    }

    @Test
    void g2CutOffAPauseCountsForTheGraceOnly() {
        apply(0, 1, true, 0, GAP);
        disconnect(10);
        assertTrue(isPaused(39));
        assertFalse(isPaused(40));
        assertPausedTime(40, 100);
        // The pause was real: all of it is credited.
        apply(100, 1, true, 100, GAP);
        assertTrue(isPaused(100));
        assertPausedTime(101, 101);
    }

    @Test
    void g3ASnapshotThatAnAnswerHasOvertakenChangesNothing() {
        apply(0, 1, false, 0, GAP);
        disconnect(10);
        assertTrue(apply(20, 3, false, 4, ask(1)));
        // Its stream was opened before the answer was given.
        assertTrue(apply(25, 2, true, 3, GAP), "the link is up again: waiters look again");
        assertPausedTime(4, 26);
        assertFalse(isPaused(26));
        assertTrue(tracker.isLinked());
        apply(27, 3, false, 4, WATCH);
        assertPausedTime(4, 30);
        assertFalse(isPaused(30));
    }

    @Test
    void g3TheFirstSnapshotMayBeOvertakenTooAndWhoJoinedHasAPlace() {
        apply(1, 2, true, 0, new Via.Ask(Optional.empty()));
        Join join = tracker.join(START + s(3));
        apply(5, 1, false, 0, GAP);
        assertPausedTime(4, 5);
        assertTrue(isPaused(5), "the pause goes on");
        assertEquals(Optional.of(new Place(START + s(5), s(4))), join.joined().place());
    }

    @Test
    void g3OfTwoViewsOfOnePauseTheOlderChangesNothing() {
        apply(0, 1, false, 0, GAP);
        apply(10, 2, true, 6, WATCH);
        apply(11, 2, true, 3, ask(1));
        assertPausedTime(8, 12);
        assertTrue(isPaused(12), "the answer was on its way for long");
        disconnect(12);
        apply(14, 2, true, 10, ask(2));
        apply(15, 2, true, 8, GAP);
        assertPausedTime(11, 15);
        assertTrue(tracker.isLinked(), "so was the snapshot");
        apply(16, 3, false, 12, WATCH);
        assertPausedTime(12, 20);
    }

    @Test
    void aRevisionBelowWhatTheWatchHasToldMeansLostStateWhateverWasAskedFor() {
        apply(0, -2, false, 0, GAP);
        disconnect(10);
        apply(12, -1, false, 2, ask(-2));
        apply(20, 1, true, 0, GAP);
        // What was credited stays, and counts on; revisions are unsigned.
        assertPausedTime(5, 23);
        assertTrue(isPaused(23));
    }

    @Test
    void g2AnAnswerWhileTheWatchIsCutCountsForOneMoreGrace() {
        apply(0, 1, false, 0, GAP);
        disconnect(10);
        apply(20, 2, true, 5, ask(1));
        assertTrue(isPaused(49));
        assertFalse(isPaused(50));
        assertPausedTime(35, 60);
        assertFalse(tracker.isLinked());
    }

    @Test
    void aServerThatLostItsStateTakesNoCreditBack() {
        apply(0, 7, true, 50, GAP);
        apply(10, 8, false, 60, WATCH);
        disconnect(10);
        apply(20, 1, true, 3, GAP);
        assertPausedTime(13, 20);
        assertPausedTime(18, 25);
        // The total is higher by chance; the revision tells.
        apply(30, 0, true, 13, GAP);
        assertPausedTime(23, 30);
    }

    @Test
    void statesThatAreOvertakenAreIgnoredAndLostStateIsNot() {
        apply(0, 5, false, 0, GAP);
        apply(1, 7, true, 0, ask(5));
        apply(1, 6, false, 0, WATCH);
        assertTrue(isPaused(1), "revision 6 was on its way when 7 was asked for");
        apply(2, 6, false, 0, ask(5));
        assertTrue(isPaused(2), "so was this answer");
        apply(3, 1, false, 0, ask(7));
        assertFalse(isPaused(3), "an answer below what was known before the question is of another life");
    }

    @Test
    void g3ASleepOfTheMachineWithinAPausePaysForNothing() {
        long hour = s(3_600);
        tracker.apply(new Now(START, s(7)), seen(EPOCH, 1, false, 0), GAP);
        tracker.apply(new Now(START + s(600), s(7)), seen(EPOCH, 2, true, 0), WATCH);
        tracker.apply(new Now(START + s(640), s(7) + hour), seen(EPOCH, 3, false, hour + s(10)), GAP);
        // Of 40 s awake, 10 s were paused.
        assertPausedTime(10, 640);
        // Fell asleep running: no more than the time awake.
        tracker.apply(new Now(START + s(660), s(7) + 2 * hour), seen(EPOCH, 5, false, 2 * hour), GAP);
        assertPausedTime(30, 660);
    }

    @Test
    void g3AStateThatASleepOfTheMachineOvertookIsCreditedWhole() {
        long hour = s(3_600);
        tracker.apply(new Now(START, s(7)), seen(EPOCH, 1, true, 0), GAP);
        // Sent at 20; the machine slept for an hour at 21.
        tracker.apply(new Now(START + s(22), s(7) + hour), seen(EPOCH, 2, true, s(20)), WATCH);
        assertPausedTime(20, 22);
        tracker.apply(new Now(START + s(30), s(7) + hour), seen(EPOCH, 3, false, hour + s(30)), WATCH);
        assertPausedTime(30, 40);
        // Resumed, then the sleep, then the news of it.
        tracker.apply(new Now(START + s(50), s(7) + hour), seen(EPOCH, 4, true, hour + s(30)), WATCH);
        tracker.apply(new Now(START + s(60), s(107) + hour), seen(EPOCH, 5, false, hour + s(39)), WATCH);
        assertPausedTime(39, 60);
        // A sleep while it ran is none of the next pause.
        tracker.apply(new Now(START + s(70), s(207) + hour), seen(EPOCH, 6, true, hour + s(39)), WATCH);
        tracker.apply(new Now(START + s(80), s(207) + hour), seen(EPOCH, 7, false, hour + s(49)), WATCH);
        assertPausedTime(49, 80);
        // Two of them, the second of which is in the pause.
        tracker.apply(new Now(START + s(90), s(307) + hour), seen(EPOCH, 8, true, hour + s(49)), WATCH);
        tracker.apply(new Now(START + s(100), s(357) + hour), seen(EPOCH, 9, true, hour + s(109)), WATCH);
        tracker.apply(new Now(START + s(105), s(357) + hour), seen(EPOCH, 10, false, hour + s(114)), WATCH);
        assertPausedTime(64, 105);
    }

    @Test
    void whoJoinsGetsItsPlaceWithTheNextState() {
        apply(0, 1, false, 0, GAP);
        disconnect(10);
        Join join = tracker.join(START + s(15));
        assertEquals(0, join.pausedTime());
        assertEquals(Optional.empty(), join.joined().place());
        apply(20, 3, false, 10, GAP);
        assertEquals(Optional.of(new Place(START + s(20), s(10))), join.joined().place());
        assertEquals(
                Optional.empty(),
                tracker.join(START + s(21)).joined().place(),
                "who joins later waits for a state of its own");
    }

    @Test
    void revisionsAreUnsigned() {
        apply(0, -2, false, 0, GAP);
        apply(1, 5, true, 0, WATCH);
        assertFalse(isPaused(1), "5 is far below 2^64 - 2");
        apply(2, -1, true, 0, WATCH);
        assertTrue(isPaused(2));
    }

    @Test
    void theGreatestTotalIsSafe() {
        tracker.apply(new Now(START, 0), seen(EPOCH, 1, true, Nanos.MAX), GAP);
        assertPausedTime(9, 9);
        tracker.apply(new Now(START + s(9), 0), seen(EPOCH, 2, false, 0), WATCH);
        assertPausedTime(9, 9);
    }

    @Test
    void g3ALostTotalThatIsExceededMeanwhileIsCreditedInFull() {
        apply(0, 1, false, 0, GAP);
        apply(10, 2, true, 0, WATCH);
        apply(12, 3, false, 2, WATCH);
        disconnect(20);
        // Lost 2 s; a pause began 4 s ago, so that the total exceeds the lost one.
        epoch = 2;
        apply(25, 900, true, 4, GAP);
        assertPausedTime(6, 25);
        assertPausedTime(14, 33);
        apply(34, 901, false, 13, WATCH);
        assertPausedTime(15, 40);
    }

    @Test
    void g3APauseOnBothSidesOfALossIsCreditedBeyondTheGrace() {
        apply(0, 1, false, 0, GAP);
        apply(10, 2, true, 0, WATCH);
        disconnect(20);
        epoch = 2;
        // Paused for 10 s until the disconnect, again since 25.
        apply(100, 900, true, 75, GAP);
        assertPausedTime(85, 100);
        assertPausedTime(86, 101);
    }

    @Test
    void aPauseThatALossEndedKeepsWhatWasAssumed() {
        apply(0, 1, true, 0, GAP);
        disconnect(10);
        epoch = 2;
        assertTrue(apply(15, 900, false, 0, GAP), "waiters for the resume look again");
        assertPausedTime(15, 15);
        assertPausedTime(15, 30);
    }

    @Test
    void anEpochThatWasLeftDoesNotComeBackByLateStates() {
        apply(0, 7, true, 0, GAP);
        epoch = 2;
        apply(4, 900, false, 0, ask(7));
        assertPausedTime(4, 9);
        assertFalse(isPaused(9));
        epoch = EPOCH;
        apply(5, 8, true, 5, WATCH);
        assertFalse(isPaused(5), "this state was on its way when the answer came");
        apply(5, 8, true, 5, ask(7));
        assertFalse(isPaused(5), "this answer was on its way too");
        epoch = 3;
        apply(6, 1_000, true, 0, ask(7));
        assertTrue(isPaused(6), "the server lost its state twice while this question was open");
        // The operator went back to the first store, and the watch says so.
        epoch = EPOCH;
        disconnect(8);
        apply(9, 8, false, 5, GAP);
        assertFalse(isPaused(9));
        assertPausedTime(7, 12);
    }

    @Test
    void revisionsAreBoundsWithinTheirEpochOnly() {
        apply(0, 900, false, 0, GAP);
        disconnect(1);
        epoch = 2;
        apply(2, 7, true, 0, ask(900));
        // Its stream was opened before the answer; that its revision is lower says nothing.
        apply(3, 6, false, 0, GAP);
        assertTrue(isPaused(3), "the snapshot is older than the answer");
        apply(4, 8, false, 2, WATCH);
        assertPausedTime(2, 9);
    }

    @Test
    void statesWithoutAnEpochAreComparedByTotalAndRevision() {
        epoch = 0;
        apply(0, 5, false, 0, GAP);
        apply(5, 6, true, 0, WATCH);
        disconnect(6);
        // The server was upgraded, and kept its store.
        epoch = 2;
        apply(10, 7, false, 3, GAP);
        assertPausedTime(3, 20);
    }

    @Test
    void g2ALinkThatDiedInSilenceWasLostWithItsLastMessage() {
        apply(0, 1, true, 0, GAP);
        assertTrue(tracker.disconnect(START + s(40), START + s(5)), "waiters for the resume look again");
        assertFalse(isPaused(40), "the grace is over");
        assertPausedTime(35, 50);
    }

    @Test
    void g1APauseCountsUntilTheLastJoinBeforeTheLinkWasKnownToBeDead() {
        apply(0, 1, true, 0, GAP);
        assertEquals(s(38), tracker.join(START + s(38)).pausedTime());
        tracker.disconnect(START + s(40), START + s(5));
        assertFalse(isPaused(38));
        assertPausedTime(38, 50);
        tracker.join(START + s(45));
        assertPausedTime(38, 50);
    }

    @Test
    void g2AnAnswerAfterTheLastMessageConfirmsAPause() {
        apply(0, 1, true, 0, GAP);
        apply(20, 1, true, 20, ask(1));
        tracker.disconnect(START + s(40), START + s(5));
        assertTrue(isPaused(49));
        assertPausedTime(50, 60);
    }
}
