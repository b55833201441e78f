package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import io.grpc.Status;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class RenewalTest {
    private static final Duration TTL = Duration.ofSeconds(30);
    private static final Duration THIRD = TTL.dividedBy(3);

    private final ManualTimer timer = new ManualTimer();
    /** Calls that wait for their answer. */
    private final Deque<CompletableFuture<Elicitation>> calls = new ArrayDeque<>();

    private int ends;

    private final Renewal renewal = new Renewal(timer, TTL, timer.now(), this::call, () -> ends++);

    private CompletableFuture<Elicitation> call(Duration most) {
        assertEquals(THIRD, most);
        CompletableFuture<Elicitation> call = new CompletableFuture<>();
        calls.add(call);
        return call;
    }

    private void answer() {
        calls.remove().complete(null);
        timer.settle();
    }

    private void fail(PausewatchException error) {
        calls.remove().completeExceptionally(error);
        timer.settle();
    }

    private static PausewatchException refusal(String reason) {
        return Failure.of(FailureTest.refusal(Status.Code.NOT_FOUND, reason, "pausewatch"));
    }

    private static PausewatchException unavailable() {
        return Failure.made(Status.UNAVAILABLE, "away", null);
    }

    @Test
    void theSharedVectors() throws IOException {
        for (JsonObject each : Vectors.cases("renewal.json")) {
            Vectors.known(each, "name", "ttl_ms", "steps");
            ManualTimer clock = new ManualTimer();
            List<CompletableFuture<Elicitation>> sent = new ArrayList<>();
            Deque<CompletableFuture<Elicitation>> underWay = new ArrayDeque<>();
            Renewal shared = new Renewal(
                    clock,
                    Duration.ofMillis(each.get("ttl_ms").getAsLong()),
                    clock.now(),
                    most -> {
                        sent.add(new CompletableFuture<>());
                        underWay.add(sent.get(sent.size() - 1));
                        return underWay.getLast();
                    },
                    () -> {});
            shared.start();
            clock.settle();
            long at = 0;
            for (JsonObject step : Vectors.list(each, "steps")) {
                String name = each.get("name").getAsString() + ": " + step;
                Vectors.known(step, "at_ms", "answer", "expect");
                clock.advance(Duration.ofMillis(step.get("at_ms").getAsLong() - at));
                at = step.get("at_ms").getAsLong();
                if (step.has("answer")) {
                    end(underWay.remove(), step.get("answer").getAsString());
                    clock.settle();
                }
                if (step.has("expect")) {
                    JsonObject expected = Vectors.known(step.getAsJsonObject("expect"), "sent", "lease");
                    if (expected.has("sent")) {
                        assertEquals(expected.get("sent").getAsInt(), sent.size(), name);
                    }
                    if (expected.has("lease")) {
                        Lease lease = Lease.valueOf(
                                expected.get("lease").getAsString().toUpperCase(Locale.ROOT));
                        assertEquals(lease, shared.lease(), name);
                    }
                }
            }
        }
    }

    private static void end(CompletableFuture<Elicitation> call, String answer) {
        if (answer.equals("ok")) {
            call.complete(null);
        } else if (answer.startsWith("ELICITATION_")) {
            call.completeExceptionally(refusal(answer));
        } else {
            call.completeExceptionally(Failure.made(Status.fromCode(Status.Code.valueOf(answer)), "so it ended", null));
        }
    }

    @Test
    void aRenewalThatFailsIsTriedAgainWithoutEnd() {
        renewal.start();
        timer.advance(THIRD);
        for (int failure = 0; failure < 100; failure++) {
            fail(unavailable());
            timer.advance(Duration.ofSeconds(4));
            assertEquals(1, calls.size());
        }
        assertEquals(Lease.OVERDUE, renewal.lease());
        answer();
        assertEquals(Lease.HELD, renewal.lease(), "a server that was away gave the lease one full ttl again");
    }

    @Test
    void aLeaseIsOverdueOneTtlAfterTheLastAnswer() {
        renewal.start();
        CompletableFuture<Lease> lost = renewal.lost();
        timer.advance(THIRD);
        timer.advance(THIRD.multipliedBy(2).minusMillis(1));
        assertEquals(Lease.HELD, renewal.lease());
        assertFalse(lost.isDone());
        timer.advance(Duration.ofMillis(1));
        assertEquals(Lease.OVERDUE, renewal.lease());
        assertEquals(Lease.OVERDUE, lost.join());
    }

    @Test
    void theServersWordEndsIt() {
        renewal.start();
        CompletableFuture<Lease> lost = renewal.lost();
        timer.advance(THIRD);
        fail(refusal("ELICITATION_RELEASED"));
        assertEquals(Lease.RELEASED, lost.join());
        assertEquals(Lease.RELEASED, renewal.lost().join());
        timer.advance(TTL.multipliedBy(10));
        assertEquals(Lease.RELEASED, renewal.lease());
        assertEquals(0, calls.size());
        assertEquals(0, timer.alarms());
        renewal.close();
        assertEquals(Lease.RELEASED, renewal.lease());
        assertEquals(1, ends);
    }

    @Test
    void closedItIsOverdueForGood() {
        renewal.start();
        CompletableFuture<Lease> lost = renewal.lost();
        timer.advance(THIRD);
        assertEquals(0, ends);
        renewal.close();
        assertEquals(Lease.OVERDUE, lost.join());
        answer();
        assertEquals(Lease.OVERDUE, renewal.lease());
        assertEquals(0, timer.alarms());
        assertEquals(1, ends);
    }

    @Test
    void withoutRenewalsTheEndOfTheLeaseIsStillReported() {
        renewal.start();
        timer.advance(THIRD);
        renewal.stopRenewing();
        answer();
        assertEquals(Lease.HELD, renewal.lease());
        timer.advance(TTL);
        assertEquals(Lease.OVERDUE, renewal.lease());
        assertTrue(calls.isEmpty());
        renewal.stop(Lease.EXPIRED);
        assertEquals(Lease.EXPIRED, renewal.lease());
        assertEquals(0, timer.alarms());
        assertEquals(1, ends);
    }

    @Test
    void anAnswerAfterTheStopChangesNothing() {
        renewal.start();
        timer.advance(THIRD);
        renewal.stop(Lease.EXPIRED);
        answer();
        timer.advance(TTL);
        assertEquals(Lease.EXPIRED, renewal.lease());
        assertEquals(0, timer.alarms());
        assertTrue(calls.isEmpty());
    }
}
