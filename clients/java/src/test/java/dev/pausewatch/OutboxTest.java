package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class OutboxTest {
    private static final PausewatchException LOST = Failure.made(Status.UNAVAILABLE, "lost", null);

    private final Outbox outbox = new Outbox(false);

    static PauseState state(String threadId, long revision, boolean paused) {
        return state(1, threadId, revision, paused);
    }

    private static PauseState state(long epoch, String threadId, long revision, boolean paused) {
        return new PauseState(
                threadId,
                paused ? 1 : 0,
                paused,
                revision,
                Duration.ZERO,
                Optional.empty(),
                Optional.empty(),
                List.of(),
                epoch);
    }

    /** What is told now: {@code t5} a state, {@code g} with a gap, {@code =} unchanged, {@code !} a break, {@code .} the end of a snapshot. */
    private static List<String> told(Outbox outbox) {
        List<String> told = new ArrayList<>();
        for (Optional<Watch.Event> event = outbox.poll(); event.isPresent(); event = outbox.poll()) {
            if (event.get() instanceof Watch.Event.State update) {
                told.add(update.state().threadId()
                        + update.state().revision()
                        + (update.gap() ? "g" : "")
                        + (update.changed() ? "" : "="));
            } else if (event.get() instanceof Watch.Event.Disconnected disconnected) {
                told.add("!" + String.join(",", disconnected.threadIds()));
            } else {
                told.add(".");
            }
        }
        return told;
    }

    @Test
    void aFirstStateHasAGapAndAChangeHasNone() {
        outbox.added("t");
        outbox.state(state("t", 5, false), false);
        assertEquals(List.of("t5g"), told(outbox));
        outbox.state(state("t", 6, true), false);
        assertEquals(List.of("t6"), told(outbox));
    }

    @Test
    void aSlowReaderGetsTheLatestStateOfEachThread() {
        outbox.added("t");
        outbox.added("u");
        for (int revision = 1; revision <= 1_000; revision++) {
            outbox.state(state("t", revision, true), false);
            outbox.state(state("u", revision, true), false);
        }
        assertEquals(List.of("t1000g", "u1000g"), told(outbox));
    }

    @Test
    void anOutdatedStateIsNotReported() {
        outbox.added("t");
        outbox.state(state("t", 5, false), false);
        outbox.state(state("t", 4, true), false);
        assertEquals(List.of("t5g"), told(outbox));
        outbox.state(state("t", 5, false), false);
        assertEquals(List.of(), told(outbox));
    }

    @Test
    void afterADisconnectAnyRevisionIsReportedWithAGap() {
        outbox.added("t");
        outbox.state(state("t", 5, false), false);
        told(outbox);
        outbox.disconnected(List.of("t"), LOST, 0);
        outbox.state(state("t", 5, false), false);
        assertEquals(List.of("!t", "t5g="), told(outbox));
        outbox.disconnected(List.of("t"), LOST, 0);
        outbox.state(state("t", 2, false), false);
        assertEquals(List.of("!t", "t2g"), told(outbox));
    }

    @Test
    void aDisconnectDropsUndeliveredStatesAndDisconnectsAreMerged() {
        outbox.added("t");
        outbox.added("u");
        for (int revision = 1; revision <= 100; revision++) {
            outbox.state(state("t", revision, true), false);
            outbox.state(state("u", revision, true), false);
            outbox.snapshotComplete();
            outbox.disconnected(List.of("t"), LOST, 0);
        }
        assertEquals(List.of("u100g", "!t"), told(outbox));
        outbox.state(state("t", 100, true), false);
        outbox.snapshotComplete();
        assertEquals(List.of("t100g", "."), told(outbox));
    }

    @Test
    void theEndOfASnapshotIsReportedOnceAndAgainAfterAnAddition() {
        outbox.added("t");
        outbox.snapshotComplete();
        outbox.snapshotComplete();
        assertEquals(List.of("."), told(outbox));
        outbox.added("u");
        outbox.snapshotComplete();
        assertEquals(List.of("."), told(outbox));
    }

    @Test
    void aRemovedThreadIsNotReportedAnyMore() {
        outbox.added("t");
        outbox.state(state("t", 1, true), false);
        outbox.removed("t");
        outbox.state(state("t", 2, true), false);
        assertEquals(List.of(), told(outbox));
        List.of("t", "u").forEach(outbox::added);
        outbox.disconnected(List.of("t", "u"), LOST, 0);
        outbox.removed("t");
        assertEquals(List.of("!u"), told(outbox));
        outbox.disconnected(List.of("u"), LOST, 0);
        outbox.removed("u");
        assertEquals(List.of(), told(outbox));
    }

    @Test
    void aWatchOfAllRemembersPausedThreadsOnly() {
        Outbox all = new Outbox(true);
        all.state(state("t", 1, true), true);
        all.state(state("u", 2, true), false);
        assertEquals(List.of("t1g", "u2"), told(all));
        all.state(state("t", 3, false), false);
        assertEquals(List.of("t3"), told(all));
        all.disconnected(List.of(), LOST, 0);
        assertEquals(List.of("u"), all.unknown());
    }

    @Test
    void aWatchOfAllKnowsWhichThreadsToRequestAfterADisconnect() {
        Outbox all = new Outbox(true);
        all.state(state("t", 1, true), true);
        all.state(state("u", 2, true), true);
        told(all);
        all.disconnected(List.of(), LOST, 0);
        all.state(state("u", 2, true), true);
        assertEquals(List.of("t"), all.unknown());
        assertEquals(List.of("!", "u2g="), told(all));
    }

    @Test
    void g7AnOutboxOfAllIsFullAtItsBacklogAndSaysWhenThereIsRoom() {
        Outbox all = new Outbox(true);
        int[] rooms = new int[1];
        all.onRoom(() -> rooms[0]++);
        for (int thread = 0; thread < Outbox.MAX_UNREAD_EVENTS; thread++) {
            assertFalse(all.isFull());
            all.state(state("t" + thread, 2, false), false);
        }
        assertTrue(all.isFull());
        all.state(state("one more", 1, true), false);
        all.poll();
        assertEquals(0, rooms[0]);
        all.poll();
        assertEquals(1, rooms[0]);
        all.poll();
        assertEquals(1, rooms[0], "it is said once");
    }

    @Test
    void g7AnOutboxOfNamedThreadsIsNeverFull() {
        for (int thread = 0; thread <= Outbox.MAX_UNREAD_EVENTS; thread++) {
            outbox.added("t" + thread);
            outbox.state(state("t" + thread, 1, true), true);
        }
        assertFalse(outbox.isFull());
    }

    @Test
    void g7AfterADisconnectThreadsThatWereNeverReportedAreForgotten() {
        Outbox all = new Outbox(true);
        all.state(state("told", 1, true), true);
        told(all);
        all.state(state("told", 2, false), false);
        all.state(state("ran", 2, false), false);
        all.state(state("paused", 1, true), false);
        all.disconnected(List.of(), LOST, 0);
        assertEquals(List.of("told"), all.unknown());
        all.state(state("paused", 1, true), true);
        assertEquals(List.of("!", "paused1g"), told(all), "the snapshot names it");
    }

    @Test
    void aRefusalIsReportedOnceAlsoAfterADisconnect() {
        List.of("t", "u").forEach(outbox::added);
        for (String refused : List.of("!t,u !t u1g", "!u u1g")) {
            List<String> told = new ArrayList<>();
            outbox.disconnected(List.of("t", "u"), LOST, 0);
            told.addAll(told(outbox));
            outbox.refused(List.of("t"), LOST);
            told.addAll(told(outbox));
            outbox.state(state("u", 1, true), true);
            told.addAll(told(outbox));
            assertEquals(refused, String.join(" ", told).replace("=", ""));
        }
        outbox.disconnected(List.of("t"), LOST, 0);
        assertEquals(List.of(), told(outbox));
        outbox.state(state("t", 1, true), true);
        outbox.disconnected(List.of("t"), LOST, 0);
        assertEquals(List.of("!t"), told(outbox));
    }

    @Test
    void aWaiterIsWokenByAnEventAndByTheEnd() throws InterruptedException {
        assertFalse(outbox.await(1), "nothing to tell");
        outbox.added("t");
        outbox.state(state("t", 1, true), false);
        assertTrue(outbox.await(0x7fff_ffff_ffff_ffffL));
        outbox.close();
        assertFalse(outbox.await(0x7fff_ffff_ffff_ffffL));
    }

    @Test
    void aStateOfAnotherEpochIsAChangeWhateverItsRevision() {
        outbox.added("t");
        outbox.state(state("t", 5, false), false);
        assertEquals(List.of("t5g"), told(outbox));
        outbox.disconnected(List.of("t"), LOST, 0);
        outbox.state(state(2, "t", 5, false), true);
        assertEquals(List.of("!t", "t5g"), told(outbox));
        outbox.state(state(3, "t", 4, true), false);
        assertEquals(List.of("t4"), told(outbox));
    }
}
