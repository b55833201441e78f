package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.pausewatch.v1.WatchRequest;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class WatchTest {
    private final FakeServer server = new FakeServer();
    private final Client client =
            Client.open(Config.builder().address(server.address()).build());

    @AfterEach
    void close() {
        client.close();
        server.close();
    }

    private static void assertState(Watch.Event event, String threadId, long revision, boolean gap, boolean changed) {
        Watch.Event.State update = assertInstanceOf(Watch.Event.State.class, event);
        assertEquals(threadId, update.state().threadId());
        assertEquals(revision, update.state().revision());
        assertEquals(gap, update.gap(), "gap");
        assertEquals(changed, update.changed(), "changed");
    }

    private static void assertComplete(Watch.Event event) {
        assertInstanceOf(Watch.Event.SnapshotComplete.class, event);
    }

    private static void assertNothing(Watch watch) {
        assertEquals(Optional.empty(), watch.next(Duration.ofMillis(100)));
    }

    private static void assertEnds(FakeServer.WatchCall stream) throws InterruptedException {
        for (int wait = 0; wait < 1_000 && !stream.observer().isCancelled(); wait++) {
            Thread.sleep(10);
        }
        assertTrue(stream.observer().isCancelled());
    }

    @Test
    void changesBeforeAnAnswerAreSentWithTheNextRequest() throws InterruptedException {
        try (Watch watch = client.watch("a").open()) {
            FakeServer.WatchCall stream = server.nextWatch();
            assertEquals(List.of("a"), stream.request().getAddList());
            List.of("b", "c", "d").forEach(watch::add);
            watch.remove("c");
            stream.state("a", 1);
            assertState(watch.next(), "a", 1, true, true);
            assertNothing(watch);
            assertTrue(stream.isQuiet());
            stream.complete();
            WatchRequest second = stream.request();
            assertEquals(List.of("b", "d"), second.getAddList());
            stream.state("b", 7);
            stream.state("a", 3);
            stream.state("d", 9);
            assertState(watch.next(), "b", 7, true, true);
            assertState(watch.next(), "a", 3, false, true);
            assertState(watch.next(), "d", 9, true, true);
            assertNothing(watch);
            stream.complete();
            assertComplete(watch.next());
            watch.remove("b");
            assertEquals(List.of("b"), stream.request().getRemoveList());
            stream.state("b", 8);
            stream.complete();
            assertNothing(watch);
            assertTrue(server.watches.isEmpty(), "one stream does for all");
        }
    }

    @Test
    void aNewStreamIsSentTheWholeSet() throws InterruptedException {
        try (Watch watch = client.watch("a", "b").open()) {
            FakeServer.WatchCall first = server.nextWatch();
            List<String> asked = new ArrayList<>();
            while (asked.size() < 2) {
                asked.addAll(first.request().getAddList());
                first.complete();
            }
            assertComplete(watch.next());
            first.observer().onCompleted();
            assertInstanceOf(Watch.Event.Disconnected.class, watch.next());
            assertEquals(List.of("a", "b"), server.nextWatch().request().getAddList());
        }
    }

    @Test
    void aForbiddenThreadIsReportedAndLeftOut() throws InterruptedException {
        try (Watch watch = client.watch().open()) {
            watch.add("a");
            FakeServer.WatchCall stream = server.nextWatch();
            stream.request();
            List.of("b", "c").forEach(watch::add);
            stream.state("a", 1);
            assertState(watch.next(), "a", 1, true, true);
            stream.complete();
            assertEquals(List.of("b", "c"), stream.request().getAddList());
            stream.refuse(Status.Code.PERMISSION_DENIED, "THREAD_FORBIDDEN", Duration.ZERO, "b");
            Watch.Event.Disconnected refused = assertInstanceOf(Watch.Event.Disconnected.class, watch.next());
            assertEquals(List.of("b"), refused.threadIds());
            assertInstanceOf(PermissionDeniedException.class, refused.error());
            assertEquals(List.of("c"), stream.request().getAddList());
            stream.state("c", 2);
            assertState(watch.next(), "c", 2, true, true);
            stream.complete();
            assertComplete(watch.next());
            assertTrue(stream.isQuiet());
        }
    }

    @Test
    void whatALimitRefusesIsRequestedAgain() throws InterruptedException {
        try (Watch watch = client.watch("a").open()) {
            FakeServer.WatchCall stream = server.nextWatch();
            for (int refusal = 0; refusal < 2; refusal++) {
                assertEquals(List.of("a"), stream.request().getAddList());
                stream.refuse(Status.Code.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED", Duration.ofMillis(20));
            }
            Watch.Event.Disconnected refused = assertInstanceOf(Watch.Event.Disconnected.class, watch.next());
            assertInstanceOf(LimitExceededException.class, refused.error());
            assertEquals(List.of("a"), stream.request().getAddList());
            stream.state("a", 1);
            stream.complete();
            assertState(watch.next(), "a", 1, true, true);
            assertComplete(watch.next());
        }
    }

    @Test
    void eachThreadThatALimitRefusesIsReportedOnce() throws InterruptedException {
        try (Watch watch = client.watch("a").open()) {
            FakeServer.WatchCall stream = server.nextWatch();
            List<String> requested = stream.request().getAddList();
            watch.add("b");
            while (requested.size() < 2) {
                stream.refuse(Status.Code.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED", Duration.ofMillis(20));
                requested = stream.request().getAddList();
            }
            stream.refuse(Status.Code.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED", Duration.ofMillis(20));
            requested = stream.request().getAddList();
            List<String> refused = new ArrayList<>();
            while (refused.size() < 2) {
                refused.addAll(assertInstanceOf(
                                Watch.Event.Disconnected.class,
                                watch.next(Duration.ofSeconds(10)).orElseThrow())
                        .threadIds());
            }
            assertEquals(List.of("a", "b"), refused.stream().sorted().toList());
            requested.forEach(threadId -> stream.state(threadId, 1));
            stream.complete();
            assertInstanceOf(Watch.Event.State.class, watch.next());
        }
    }

    @Test
    void aDisconnectIsReportedOnceAndTheWatchReconnects() throws InterruptedException {
        try (Watch watch = client.watch("a").open()) {
            FakeServer.WatchCall first = server.nextWatch();
            first.state("a", 1);
            first.complete();
            assertState(watch.next(), "a", 1, true, true);
            assertComplete(watch.next());
            first.observer().onError(Status.UNAVAILABLE.asRuntimeException());
            server.nextWatch().observer().onError(Status.UNAVAILABLE.asRuntimeException());
            server.nextWatch().observer().onError(Status.INTERNAL.asRuntimeException());
            FakeServer.WatchCall healed = server.nextWatch();
            healed.state("a", 1);
            healed.complete();
            assertInstanceOf(UnavailableException.class, ((Watch.Event.Disconnected) watch.next()).error());
            assertState(watch.next(), "a", 1, true, false);
            assertComplete(watch.next());
        }
    }

    @Test
    void manyIdsAreRequestedBitByBit() throws InterruptedException {
        List<String> threadIds =
                IntStream.range(0, 10_001).mapToObj(number -> "t" + number).toList();
        try (Watch watch = client.watch(threadIds).open()) {
            Set<String> watched = new HashSet<>();
            FakeServer.WatchCall stream = server.nextWatch();
            while (watched.size() < threadIds.size()) {
                List<String> added = stream.request().getAddList();
                assertTrue(added.size() <= 500);
                assertTrue(stream.isQuiet());
                watched.addAll(added);
                stream.complete();
            }
            assertComplete(watch.next());
        }
    }

    @Test
    void aThreadThatIsRemovedAndAddedAgainIsReportedAgain() throws InterruptedException {
        try (Watch watch = client.watch("a").open()) {
            FakeServer.WatchCall stream = server.nextWatch();
            stream.request();
            watch.add("b");
            stream.state("a", 1);
            stream.complete();
            stream.request();
            stream.complete();
            assertState(watch.next(), "a", 1, true, true);
            assertComplete(watch.next());
            watch.remove("a");
            watch.add("a");
            WatchRequest both = stream.request();
            if (both.getAddCount() == 0) {
                assertEquals(List.of("a"), both.getRemoveList());
                stream.complete();
                both = stream.request();
            }
            assertEquals(List.of("a"), both.getAddList());
            stream.state("a", 1);
            stream.complete();
            assertState(watch.next(), "a", 1, true, true);
            assertComplete(watch.next());
        }
    }

    @Test
    void withoutThreadsThereIsNoStream() throws InterruptedException {
        try (Watch watch = client.watch("a").open()) {
            FakeServer.WatchCall stream = server.nextWatch();
            watch.remove("a");
            assertEnds(stream);
            assertTrue(server.watches.isEmpty());
            watch.add("a");
            server.nextWatch();
        }
    }

    @Test
    void aLimitOnAWatchOfAllThreadsIsWaitedFor() throws InterruptedException {
        try (Watch watch = client.watchAll().open()) {
            FakeServer.WatchCall refused = server.nextWatch();
            refused.request();
            long since = System.nanoTime();
            refused.refuse(Status.Code.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED", Duration.ofMillis(700));
            Watch.Event.Disconnected lost = assertInstanceOf(Watch.Event.Disconnected.class, watch.next());
            assertInstanceOf(LimitExceededException.class, lost.error());
            assertTrue(server.nextWatch().request().getAllThreads());
            assertTrue(System.nanoTime() - since >= Duration.ofMillis(700).toNanos());
        }
    }

    @Test
    void aWatchOfAllCannotBeNarrowed() throws InterruptedException {
        try (Watch watch = client.watchAll().open()) {
            FakeServer.WatchCall stream = server.nextWatch();
            watch.add("a");
            watch.remove("a");
            stream.complete();
            assertComplete(watch.next());
            stream.state("b", 1);
            assertState(watch.next(), "b", 1, false, true);
            assertTrue(server.watches.isEmpty());
        }
    }

    @Test
    void aNewStreamOfAllAsksForThoseThatWerePaused() throws InterruptedException {
        try (Watch watch = client.watchAll().includeElicitations().open()) {
            FakeServer.WatchCall first = server.nextWatch();
            WatchRequest opening = first.request();
            assertTrue(opening.getAllThreads() && opening.getIncludeElicitations());
            first.state("a", 1, true);
            first.state("b", 2, true);
            first.complete();
            assertState(watch.next(), "a", 1, true, true);
            assertState(watch.next(), "b", 2, true, true);
            assertComplete(watch.next());
            first.state("b", 3);
            assertState(watch.next(), "b", 3, false, true);
            first.observer().onCompleted();
            assertInstanceOf(Watch.Event.Disconnected.class, watch.next());

            FakeServer.WatchCall second = server.nextWatch();
            assertTrue(second.request().getAllThreads());
            second.state("c", 4, true);
            second.complete();
            assertEquals(List.of("a"), second.request().getAddList());
            assertState(watch.next(), "c", 4, true, true);
            assertNothing(watch);
            second.state("a", 6);
            second.complete();
            assertState(watch.next(), "a", 6, true, true);
            assertComplete(watch.next());
        }
    }

    @Test
    void g7AStoppedReaderOfAllIsBounded() throws InterruptedException {
        try (Core core = new Core(Config.builder().address(server.address()).build())) {
            Outbox outbox = new Outbox(true);
            Calls.RetryPolicy patience = new Calls.RetryPolicy(Duration.ofSeconds(10), 0);
            outbox.onRoom(core.link(
                    outbox, WatchRequest.newBuilder().setAllThreads(true).build(), patience)::readOn);
            FakeServer.WatchCall stream = server.nextWatch();
            stream.complete();
            int threads = 3 * Outbox.MAX_UNREAD_EVENTS;
            // More than a mebibyte: unread messages of a stream must not delay the answers of other calls.
            String name = "x".repeat(200);
            for (int thread = 0; thread < threads; thread++) {
                stream.state(name + thread, 2);
            }
            stream.state("last", 1, true);
            while (outbox.size() < Outbox.MAX_UNREAD_EVENTS) {
                Calls.await(core.calls().get("t", patience));
            }
            for (int call = 0; call < 10; call++) {
                Calls.await(core.calls().get("t", patience));
            }
            assertEquals(Outbox.MAX_UNREAD_EVENTS, outbox.size());
            assertComplete(outbox.poll().orElseThrow());
            for (int thread = 0; thread < threads; thread++) {
                assertTrue(outbox.await(TimeUnit.SECONDS.toNanos(10)), thread + " threads were told");
                assertState(outbox.poll().orElseThrow(), name + thread, 2, false, true);
            }
            assertTrue(outbox.await(TimeUnit.SECONDS.toNanos(10)));
            assertState(outbox.poll().orElseThrow(), "last", 1, false, true);
        }
    }

    @Test
    void badIdsAreRefusedAtOnce() {
        assertThrows(InvalidFieldException.class, () -> client.watch("ok", ""));
        try (Watch watch = client.watch().open()) {
            assertThrows(InvalidFieldException.class, () -> watch.add("a\nb"));
        }
    }

    @Test
    void closingEndsTheWaitingOfReaders() throws InterruptedException {
        Watch watch = client.watch("a").open();
        FakeServer.WatchCall stream = server.nextWatch();
        CompletableFuture<Class<?>> next = CompletableFuture.supplyAsync(
                () -> assertThrows(NoSuchElementException.class, watch::next).getClass());
        CompletableFuture<Boolean> hasNext =
                CompletableFuture.supplyAsync(() -> watch.iterator().hasNext());
        watch.close();
        watch.close();
        assertEquals(NoSuchElementException.class, next.join());
        assertFalse(hasNext.join());
        assertEnds(stream);
    }

    @Test
    void anInterruptedReaderLosesNothing() throws InterruptedException {
        try (Watch watch = client.watch("a").open()) {
            Thread.currentThread().interrupt();
            assertThrows(OtherException.class, watch::next);
            assertTrue(Thread.interrupted());
            server.nextWatch().state("a", 1);
            assertState(watch.next(), "a", 1, true, true);
        }
    }

    @Test
    void aListenerThatThrowsReceivesTheNextEvent() throws InterruptedException {
        BlockingQueue<Watch.Event> told = new LinkedBlockingQueue<>();
        Subscription subscription = client.watch("a").listen(event -> {
            told.add(event);
            throw new IllegalStateException("on purpose");
        });
        FakeServer.WatchCall stream = server.nextWatch();
        stream.state("a", 1);
        stream.complete();
        assertState(told.poll(10, TimeUnit.SECONDS), "a", 1, true, true);
        assertComplete(told.poll(10, TimeUnit.SECONDS));
        subscription.close();
        assertEnds(stream);
    }

    @Test
    void aStreamThatStaysSilentIsBroken() throws InterruptedException {
        Duration firstAnswer = Duration.ofSeconds(3);
        Client hasty = client.withDeadline(firstAnswer);
        try (Watch watch = hasty.watch("a").open()) {
            FakeServer.WatchCall silent = server.nextWatch();
            assertInstanceOf(Watch.Event.Disconnected.class, watch.next());
            assertEnds(silent);
            FakeServer.WatchCall heard = server.nextWatch();
            heard.state("a", 1);
            assertState(watch.next(), "a", 1, true, true);
            assertEquals(Optional.empty(), watch.next(firstAnswer.plusSeconds(2)));
            assertFalse(heard.observer().isCancelled(), "once it was heard, it may be silent for two heartbeats");
        }
    }
}
