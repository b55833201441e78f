package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.pausewatch.v1.Confirmation;
import dev.pausewatch.v1.Refusal;
import dev.pausewatch.v1.SnapshotComplete;
import dev.pausewatch.v1.WatchRequest;
import dev.pausewatch.v1.WatchResponse;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import java.util.logging.StreamHandler;
import org.junit.jupiter.api.Test;

/** How stopwatches that run out after 10 s are confirmed on the stream. */
class ConfirmTest {
    private static final Duration LIMIT = Duration.ofSeconds(10);
    private static final Duration GRACE = Duration.ofSeconds(30);
    private static final Duration FIRST_ANSWER = Duration.ofSeconds(5);
    private static final Duration INSTANT = Duration.ofMillis(1);

    private final ManualTimer timer = new ManualTimer();
    private final FakeChannel channel = new FakeChannel();
    private final Connection connection = new Connection(channel, "localhost:7420");
    private int expired;
    private int idles;
    private final Follower follower = new Follower(
            timer,
            GRACE.toNanos(),
            new LinkReporter(timer, GRACE.toNanos(), link -> {}),
            listener -> new WatchLink(connection, timer, FIRST_ANSWER, listener, WatchRequest.getDefaultInstance()),
            idle -> idles++);

    private ThreadClock start(String threadId) {
        ThreadClock thread = follower.enter(threadId);
        new Stopwatch(timer, thread, LIMIT.toNanos(), Optional.empty(), () -> expired++).start();
        return thread;
    }

    private static WatchResponse complete() {
        return WatchResponse.newBuilder()
                .setSnapshotComplete(SnapshotComplete.getDefaultInstance())
                .build();
    }

    /** Answers the next request of the last stream; all threads are running, but {@code paused}. */
    private WatchRequest answer(String... paused) {
        WatchRequest request = channel.last().requests.remove();
        assertTrue(request.getAddCount() == 0 || request.getConfirmCount() == 0, "a limit must not refuse both");
        Set<String> still = Set.of(paused);
        Confirmation.Builder confirmation = Confirmation.newBuilder();
        request.getConfirmList()
                .forEach(threadId ->
                        confirmation.addPauseStates(FakeServer.state(threadId, 2, still.contains(threadId))));
        if (request.getConfirmCount() > 0) {
            channel.last()
                    .tell(WatchResponse.newBuilder()
                            .setConfirmation(confirmation)
                            .build());
        }
        request.getAddList()
                .forEach(threadId -> channel.last()
                        .tell(WatchResponse.newBuilder()
                                .setPauseState(FakeServer.state(threadId, 1, false))
                                .build()));
        channel.last().tell(complete());
        timer.settle();
        return request;
    }

    private void refuse(Refusal.Builder refusal) {
        channel.last().requests.remove();
        channel.last().tell(WatchResponse.newBuilder().setRefusal(refusal).build());
        timer.settle();
    }

    private static Refusal.Builder limit(int seconds) {
        return Refusal.newBuilder()
                .setCode(Status.Code.RESOURCE_EXHAUSTED.value())
                .setReason("LIMIT_EXCEEDED")
                .setRetryAfter(com.google.protobuf.Duration.newBuilder().setSeconds(seconds));
    }

    private boolean isQuiet() {
        return channel.last().requests.isEmpty();
    }

    /** A timer whose process is stopped for a moment after each alarm was set. */
    private final Timer stalling = new Timer() {
        @Override
        public long now() {
            return timer.now();
        }

        @Override
        public Alarm in(long nanos, Runnable task) {
            Alarm alarm = timer.in(nanos, task);
            timer.stall(INSTANT);
            return alarm;
        }

        @Override
        public void execute(Runnable task) {
            timer.execute(task);
        }
    };

    @Test
    void aLimitedThreadIsRequestedAgainHoweverSlowTheProcessIs() {
        Follower follower = new Follower(
                stalling,
                GRACE.toNanos(),
                new LinkReporter(stalling, GRACE.toNanos(), link -> {}),
                listener ->
                        new WatchLink(connection, stalling, FIRST_ANSWER, listener, WatchRequest.getDefaultInstance()),
                idle -> {});
        follower.enter("t");
        timer.advance(INSTANT);
        refuse(limit(1));
        timer.advance(Duration.ofSeconds(2));
        assertEquals(List.of("t"), answer().getAddList());
    }

    @Test
    void aFollowerIsIdleAfterItsLastThread() {
        for (String threadId : List.of("t", "u", "t")) {
            follower.enter(threadId);
        }
        follower.leave("t");
        follower.leave("u");
        timer.advance(Duration.ofMinutes(1));
        assertEquals(0, idles);
        follower.leave("t");
        timer.advance(Duration.ofSeconds(29));
        follower.enter("t");
        timer.advance(Duration.ofMinutes(1));
        follower.leave("t");
        assertEquals(0, idles);
        timer.advance(Duration.ofSeconds(30));
        assertEquals(1, idles);
        assertTrue(follower.isIdle());
    }

    @Test
    void theThreadsAreDisconnectedBeforeTheLinkIs() {
        ThreadClock thread = start("t");
        timer.advance(INSTANT);
        answer();
        assertTrue(thread.isLinked());
        List<Boolean> linked = new ArrayList<>();
        Handler handler = new StreamHandler() {
            @Override
            public void publish(LogRecord logRecord) {
                linked.add(thread.isLinked());
            }
        };
        Logger log = Logger.getLogger("dev.pausewatch");
        log.addHandler(handler);
        try {
            channel.last().end(Status.UNAVAILABLE);
        } finally {
            log.removeHandler(handler);
        }
        assertEquals(List.of(false), linked);
    }

    @Test
    void thoseThatRunOutTogetherAreConfirmedTogether() {
        for (int number = 0; number < 1_200; number++) {
            start("t" + number);
        }
        timer.advance(INSTANT);
        for (int added = 0; added < 1_200; ) {
            added += answer().getAddCount();
        }
        timer.advance(LIMIT.minus(INSTANT));
        List<Integer> sizes = new ArrayList<>();
        Set<String> asked = new HashSet<>();
        while (!isQuiet()) {
            WatchRequest request = answer();
            sizes.add(request.getConfirmCount());
            asked.addAll(request.getConfirmList());
        }
        assertEquals(List.of(1, 500, 500, 199), sizes, "what runs out while one is under way goes with the next");
        assertEquals(1_200, asked.size());
        assertEquals(1_200, expired);
        assertEquals(1, channel.streams.size());
    }

    @Test
    void g1APauseInTheConfirmationPreventsExpiry() {
        start("t");
        start("u");
        timer.advance(INSTANT);
        while (!isQuiet()) {
            answer();
        }
        timer.advance(LIMIT);
        answer("t");
        answer("t");
        assertEquals(1, expired);
        timer.advance(LIMIT);
        assertTrue(isQuiet());
        assertEquals(1, expired);
    }

    @Test
    void g1ALateConfirmationIsRequestedOnAnotherStream() {
        start("t");
        timer.advance(INSTANT);
        answer();
        timer.advance(LIMIT);
        assertEquals(List.of("t"), channel.last().requests.remove().getConfirmList());
        timer.advance(Duration.ofMillis(240));
        assertEquals(1, channel.streams.size());
        timer.advance(Duration.ofMillis(10 + 100));
        assertTrue(channel.streams.get(0).cancelled);
        assertEquals(2, channel.streams.size());
        assertEquals(List.of("t"), answer().getAddList(), "first the whole set");
        assertEquals(0, expired);
        assertEquals(List.of("t"), answer().getConfirmList());
        assertEquals(1, expired);
    }

    @Test
    void aStreamThatIsHeardMayAnswerLate() {
        start("t");
        timer.advance(INSTANT);
        answer();
        timer.advance(LIMIT);
        for (int tenth = 0; tenth < 50; tenth++) {
            timer.advance(Duration.ofMillis(100));
            channel.last().tell(WatchResponse.getDefaultInstance());
        }
        answer();
        assertEquals(1, channel.streams.size());
        assertEquals(1, expired);
    }

    @Test
    void whileAConfirmationWaitsTheNextStreamComesSoon() {
        ThreadClock thread = follower.enter("t");
        timer.advance(INSTANT);
        for (int failure = 0; failure < 20; failure++) {
            channel.last().end(Status.UNAVAILABLE);
            timer.advance(Duration.ofSeconds(7));
        }
        int streams = channel.streams.size();
        channel.last().end(Status.UNAVAILABLE);
        timer.advance(Duration.ofMillis(2_900));
        assertEquals(streams, channel.streams.size());
        new Stopwatch(timer, thread, INSTANT.toNanos(), Optional.empty(), () -> expired++).start();
        timer.advance(INSTANT.plusMillis(200));
        assertEquals(streams + 1, channel.streams.size());
        channel.last().end(Status.UNAVAILABLE);
        timer.advance(Duration.ofMillis(200));
        assertEquals(streams + 2, channel.streams.size());
        answer();
        answer();
        assertEquals(1, expired);
    }

    @Test
    void aRefusedAdditionDelaysNoConfirmation() {
        ThreadClock thread = start("t");
        timer.advance(INSTANT);
        refuse(limit(3_600));
        timer.advance(LIMIT);
        assertEquals(List.of("t"), answer().getConfirmList());
        assertEquals(1, expired);
        assertFalse(thread.isLinked(), "what is confirmed and not watched is cut off since");
    }

    @Test
    void aConfirmationThatALimitRefusesIsRequestedAgain() {
        start("t");
        timer.advance(INSTANT);
        answer();
        timer.advance(LIMIT);
        refuse(limit(3));
        timer.advance(Duration.ofMillis(2_900));
        assertTrue(isQuiet());
        assertEquals(1, channel.streams.size(), "the stream owes nothing meanwhile");
        timer.advance(Duration.ofMillis(100));
        assertEquals(List.of("t"), answer().getConfirmList());
        assertEquals(1, expired);
    }

    @Test
    void g2OfAForbiddenThreadTheGraceDecides() {
        start("t");
        timer.advance(INSTANT);
        refuse(Refusal.newBuilder()
                .setCode(Status.Code.PERMISSION_DENIED.value())
                .setReason("THREAD_FORBIDDEN")
                .addThreadIds("t"));
        for (int tenth = 0; tenth < 3; tenth++) {
            timer.advance(Duration.ofSeconds(10));
            channel.last().tell(WatchResponse.getDefaultInstance());
        }
        timer.advance(LIMIT.minusMillis(2));
        assertTrue(isQuiet());
        assertEquals(0, expired);
        timer.advance(INSTANT);
        assertEquals(1, expired);
    }

    private static List<String> loggedBy(Runnable action) {
        List<String> logged = new ArrayList<>();
        Handler handler = new StreamHandler() {
            @Override
            public void publish(LogRecord message) {
                logged.add(new SimpleFormatter().formatMessage(message));
            }
        };
        Logger logger = Logger.getLogger("dev.pausewatch");
        logger.addHandler(handler);
        action.run();
        logger.removeHandler(handler);
        return logged;
    }

    @Test
    void aThreadThatIsNotWatchedIsWarnedOfOnce() {
        List<String> expected = List.of("a thread is not watched, its deadlines run without its pauses: not yours");
        follower.enter("t");
        PausewatchException error = Failure.made(Status.PERMISSION_DENIED, "not yours", null);
        assertEquals(expected, loggedBy(() -> {
            follower.refused(List.of("t"), error);
            follower.refused(List.of("t"), error);
        }));
    }

    @Test
    void aThreadBeyondALimitIsNoLossOfTheLink() {
        List<String> expected = List.of("a thread is not watched, its deadlines run without its pauses: too many");
        assertEquals(expected, loggedBy(() -> {
            start("t");
            timer.advance(INSTANT);
            refuse(limit(60).setMessage("too many"));
        }));
    }

    @Test
    void aConfirmationThatIsNotAwaitedAnyMoreIsNotRequested() {
        ThreadClock thread = follower.enter("t");
        Stopwatch stopwatch = new Stopwatch(timer, thread, LIMIT.toNanos(), Optional.empty(), () -> expired++);
        stopwatch.start();
        timer.advance(INSTANT);
        answer();
        channel.last().end(Status.UNAVAILABLE);
        stopwatch.stop();
        timer.advance(LIMIT);
        assertEquals(List.of("t"), answer().getAddList());
        assertTrue(isQuiet());
        assertEquals(0, expired);
    }
}
