package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.pausewatch.Credit.Join;
import dev.pausewatch.Credit.Now;
import dev.pausewatch.Credit.Place;
import dev.pausewatch.Credit.Seen;
import dev.pausewatch.Credit.Via;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class CreditTest {
    private static final Via WATCH = new Via.Watch(false);
    private static final Via GAP = new Via.Watch(true);
    /** Any moment: clocks may begin below zero. */
    private static final long START = -s(5);

    private final Credit credit = new Credit(START, s(30));

    private static long s(long seconds) {
        return TimeUnit.SECONDS.toNanos(seconds);
    }

    private static Via ask(long known) {
        return new Via.Ask(Optional.of(known));
    }

    private boolean apply(long at, long revision, boolean paused, long total, Via via) {
        return credit.apply(new Now(START + s(at), 0), new Seen(revision, paused, s(total)), via);
    }

    private boolean cut(long at) {
        return credit.cut(START + s(at));
    }

    private void assertPaid(long paid, long at) {
        assertEquals(s(paid), credit.paid(START + s(at)));
    }

    private boolean isPaused(long at) {
        return credit.isPaused(START + s(at));
    }

    @Test
    void g3PaidFollowsTheTotalAndRunsOnWhilePaused() {
        apply(0, 4, false, 100, GAP);
        assertPaid(0, 9);
        assertFalse(isPaused(9));
        apply(10, 5, true, 100, WATCH);
        assertPaid(3, 13);
        assertTrue(isPaused(13));
        apply(14, 6, false, 104, WATCH);
        assertPaid(4, 20);
        assertFalse(isPaused(20));
    }

    @Test
    void theFirstStateCreditsNoMoreThanTheTimeSinceTheBeginning() {
        apply(2, 9, true, 3_600, GAP);
        assertPaid(2, 2);
        assertPaid(5, 5);
    }

    @Test
    void theFirstStateCreditsNoMoreThanItsTotal() {
        apply(9, 9, false, 4, GAP);
        assertPaid(4, 20);
    }

    @Test
    void g3APauseWithinABreakIsCreditedAfterwards() {
        apply(0, 1, false, 0, GAP);
        assertFalse(cut(10), "nobody waits for the resume of a running thread");
        assertPaid(0, 25);
        assertTrue(apply(25, 3, false, 9, GAP), "waiters look again");
        assertPaid(9, 30);
    }

    @Test
    void g3APauseThatEndedWithinABreakIsCreditedToItsEndOnly() {
        apply(0, 1, true, 0, GAP);
        assertTrue(cut(10), "those who wait for the resume must now see to themselves");
        assertPaid(25, 25);
        assertTrue(apply(25, 2, false, 12, GAP));
        assertPaid(12, 25);
        assertPaid(12, 40);
    }

    @Test
    void g2CutOffAPauseCountsForTheGraceOnly() {
        apply(0, 1, true, 0, GAP);
        cut(10);
        assertTrue(isPaused(39));
        assertFalse(isPaused(40));
        assertPaid(40, 100);
        // The pause was real: all of it is credited.
        apply(100, 1, true, 100, GAP);
        assertTrue(isPaused(100));
        assertPaid(101, 101);
    }

    @Test
    void g3ASnapshotThatAnAnswerHasOvertakenChangesNothing() {
        apply(0, 1, false, 0, GAP);
        cut(10);
        assertTrue(apply(20, 3, false, 4, ask(1)));
        // Its stream was opened before the answer was given.
        assertTrue(apply(25, 2, true, 3, GAP), "the link is up again: waiters look again");
        assertPaid(4, 26);
        assertFalse(isPaused(26));
        assertTrue(credit.isLinked());
        apply(27, 3, false, 4, WATCH);
        assertPaid(4, 30);
        assertFalse(isPaused(30));
    }

    @Test
    void g3TheFirstSnapshotMayBeOvertakenTooAndWhoJoinedHasAPlace() {
        apply(1, 2, true, 0, new Via.Ask(Optional.empty()));
        Join join = credit.join(START + s(3));
        apply(5, 1, false, 0, GAP);
        assertPaid(4, 5);
        assertTrue(isPaused(5), "the pause goes on");
        assertEquals(Optional.of(new Place(START + s(5), s(4))), join.joined().place());
    }

    @Test
    void g3OfTwoViewsOfOnePauseTheOlderChangesNothing() {
        apply(0, 1, false, 0, GAP);
        apply(10, 2, true, 6, WATCH);
        apply(11, 2, true, 3, ask(1));
        assertPaid(8, 12);
        assertTrue(isPaused(12), "the answer was on its way for long");
        cut(12);
        apply(14, 2, true, 10, ask(2));
        apply(15, 2, true, 8, GAP);
        assertPaid(11, 15);
        assertTrue(credit.isLinked(), "so was the snapshot");
        apply(16, 3, false, 12, WATCH);
        assertPaid(12, 20);
    }

    @Test
    void aRevisionBelowWhatTheWatchHasToldMeansLostStateWhateverWasAskedFor() {
        apply(0, -2, false, 0, GAP);
        cut(10);
        apply(12, -1, false, 2, ask(-2));
        apply(20, 1, true, 0, GAP);
        // What was credited stays, and counts on; revisions are unsigned.
        assertPaid(5, 23);
        assertTrue(isPaused(23));
    }

    @Test
    void g2AnAnswerWhileTheWatchIsCutCountsForOneMoreGrace() {
        apply(0, 1, false, 0, GAP);
        cut(10);
        apply(20, 2, true, 5, ask(1));
        assertTrue(isPaused(49));
        assertFalse(isPaused(50));
        assertPaid(35, 60);
        assertFalse(credit.isLinked());
    }

    @Test
    void aServerThatLostItsStateTakesNoCreditBack() {
        apply(0, 7, true, 50, GAP);
        apply(10, 8, false, 60, WATCH);
        cut(10);
        apply(20, 1, true, 3, GAP);
        assertPaid(13, 20);
        assertPaid(18, 25);
        // The total is higher by chance; the revision tells.
        apply(30, 0, true, 13, GAP);
        assertPaid(23, 30);
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
        credit.apply(new Now(START, s(7)), new Seen(1, false, 0), GAP);
        credit.apply(new Now(START + s(600), s(7)), new Seen(2, true, 0), WATCH);
        credit.apply(new Now(START + s(640), s(7) + hour), new Seen(3, false, hour + s(10)), GAP);
        // Of 40 s awake, 10 s were paused.
        assertPaid(10, 640);
        // Fell asleep running: no more than the time awake.
        credit.apply(new Now(START + s(660), s(7) + 2 * hour), new Seen(5, false, 2 * hour), GAP);
        assertPaid(30, 660);
    }

    @Test
    void g3AStateThatASleepOfTheMachineOvertookIsCreditedWhole() {
        long hour = s(3_600);
        credit.apply(new Now(START, s(7)), new Seen(1, true, 0), GAP);
        // Sent at 20; the machine slept for an hour at 21.
        credit.apply(new Now(START + s(22), s(7) + hour), new Seen(2, true, s(20)), WATCH);
        assertPaid(20, 22);
        credit.apply(new Now(START + s(30), s(7) + hour), new Seen(3, false, hour + s(30)), WATCH);
        assertPaid(30, 40);
        // Resumed, then the sleep, then the news of it.
        credit.apply(new Now(START + s(50), s(7) + hour), new Seen(4, true, hour + s(30)), WATCH);
        credit.apply(new Now(START + s(60), s(107) + hour), new Seen(5, false, hour + s(39)), WATCH);
        assertPaid(39, 60);
        // A sleep while it ran is none of the next pause.
        credit.apply(new Now(START + s(70), s(207) + hour), new Seen(6, true, hour + s(39)), WATCH);
        credit.apply(new Now(START + s(80), s(207) + hour), new Seen(7, false, hour + s(49)), WATCH);
        assertPaid(49, 80);
        // Two of them, the second of which is in the pause.
        credit.apply(new Now(START + s(90), s(307) + hour), new Seen(8, true, hour + s(49)), WATCH);
        credit.apply(new Now(START + s(100), s(357) + hour), new Seen(9, true, hour + s(109)), WATCH);
        credit.apply(new Now(START + s(105), s(357) + hour), new Seen(10, false, hour + s(114)), WATCH);
        assertPaid(64, 105);
    }

    @Test
    void whoJoinsGetsItsPlaceWithTheNextState() {
        apply(0, 1, false, 0, GAP);
        cut(10);
        Join join = credit.join(START + s(15));
        assertEquals(0, join.paid());
        assertEquals(Optional.empty(), join.joined().place());
        apply(20, 3, false, 10, GAP);
        assertEquals(Optional.of(new Place(START + s(20), s(10))), join.joined().place());
        assertEquals(
                Optional.empty(),
                credit.join(START + s(21)).joined().place(),
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
        credit.apply(new Now(START, 0), new Seen(1, true, Nanos.MAX), GAP);
        assertPaid(9, 9);
        credit.apply(new Now(START + s(9), 0), new Seen(2, false, 0), WATCH);
        assertPaid(9, 9);
    }
}
