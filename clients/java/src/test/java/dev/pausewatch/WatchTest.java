package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
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

    private static void assertState(WatchEvent event, String threadId, long revision, boolean gap, boolean changed) {
        WatchEvent.State update = assertInstanceOf(WatchEvent.State.class, event);
        assertEquals(threadId, update.state().threadId());
        assertEquals(revision, update.state().revision());
        assertEquals(gap, update.gap(), "gap");
        assertEquals(changed, update.changed(), "changed");
    }

    private static void assertComplete(WatchEvent event) {
        assertInstanceOf(WatchEvent.SnapshotComplete.class, event);
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
    void threadsThatAreAddedWhileAStreamOpensShareTheNextWhichReplacesIt() throws InterruptedException {
        try (Watch watch = client.watch("a").open()) {
            FakeServer.WatchCall first = server.nextWatch();
            List.of("b", "c", "d").forEach(watch::add);
            first.state("a", 1);
            assertState(watch.next(), "a", 1, true, true);
            first.complete();
            FakeServer.WatchCall second = server.nextWatch();
            assertEquals(
                    Set.of("a", "b", "c", "d"), new HashSet<>(second.request().getThreadIdsList()));
            assertNothing(watch);

            // The old stream serves until the new one has told everything.
            second.state("a", 2);
            second.state("b", 7);
            assertState(watch.next(), "b", 7, true, true);
            first.state("a", 3);
            assertState(watch.next(), "a", 3, false, true);
            second.state("a", 4);
            second.state("c", 8);
            second.state("d", 9);
            assertState(watch.next(), "c", 8, true, true);
            assertState(watch.next(), "d", 9, true, true);
            assertNothing(watch);
            second.complete();
            assertState(watch.next(), "a", 4, false, true);
            assertComplete(watch.next());
            assertEnds(first);
            assertNothing(watch);
        }
    }

    @Test
    void aStreamThatBreaksWhileItsSuccessorOpensLosesNothing() throws InterruptedException {
        try (Watch watch = client.watch("a").open()) {
            FakeServer.WatchCall first = server.nextWatch();
            first.state("a", 1);
            first.complete();
            watch.add("b");
            FakeServer.WatchCall second = server.nextWatch();
            assertState(watch.next(), "a", 1, true, true);
            second.state("a", 2);
            second.state("b", 5);
            assertState(watch.next(), "b", 5, true, true);
            first.observer().onCompleted();
            WatchEvent.Disconnected broken = assertInstanceOf(WatchEvent.Disconnected.class, watch.next());
            assertEquals(List.of("a"), broken.threadIds());
            assertState(watch.next(), "a", 2, true, true);
            second.complete();
            assertComplete(watch.next());
            second.state("a", 3);
            assertState(watch.next(), "a", 3, false, true);
        }
    }

    @Test
    void aBreakIsToldOnceAndHealed() throws InterruptedException {
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
            assertInstanceOf(UnavailableException.class, ((WatchEvent.Disconnected) watch.next()).error());
            assertState(watch.next(), "a", 1, true, false);
            assertComplete(watch.next());
        }
    }

    @Test
    void moreIdsThanAStreamMayNameAreSpreadOverStreams() throws InterruptedException {
        List<String> threadIds =
                IntStream.range(0, 10_001).mapToObj(number -> "t" + number).toList();
        try (Watch watch = client.watch(threadIds).open()) {
            Set<String> watched = new HashSet<>();
            while (watched.size() < threadIds.size()) {
                FakeServer.WatchCall stream = server.nextWatch();
                assertTrue(stream.request().getThreadIdsCount() <= 10_000);
                watched.addAll(stream.request().getThreadIdsList());
                stream.complete();
            }
            assertComplete(watch.next());
        }
    }

    @Test
    void aStreamOfMostlyRemovedThreadsIsOpenedAnew() throws InterruptedException {
        List<String> threadIds =
                IntStream.range(0, 100).mapToObj(number -> "t" + number).toList();
        try (Watch watch = client.watch(threadIds).open()) {
            FakeServer.WatchCall stream = server.nextWatch();
            while (stream.request().getThreadIdsCount() < threadIds.size()) {
                stream.complete();
                stream = server.nextWatch();
            }
            stream.complete();
            threadIds.subList(0, 60).forEach(watch::remove);
            assertTrue(server.nextWatch().request().getThreadIdsCount() < 50);
        }
    }

    @Test
    void aThreadThatIsRemovedAndAddedAgainIsToldAgain() throws InterruptedException {
        try (Watch watch = client.watch("b").open()) {
            FakeServer.WatchCall first = server.nextWatch();
            first.state("b", 1);
            first.complete();
            assertState(watch.next(), "b", 1, true, true);
            assertComplete(watch.next());
            watch.add("a");
            FakeServer.WatchCall second = server.nextWatch();
            second.state("a", 1);
            second.complete();
            assertState(watch.next(), "a", 1, true, true);
            assertComplete(watch.next());
            watch.remove("a");
            watch.add("a");
            FakeServer.WatchCall next = server.nextWatch();
            next.state("a", 1);
            next.complete();
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

    private void tellsOfAAndBreaks(Watch watch) throws InterruptedException {
        FakeServer.WatchCall first = server.nextWatch();
        first.state("a", 1, true);
        first.complete();
        assertState(watch.next(), "a", 1, true, true);
        assertComplete(watch.next());
        first.observer().onCompleted();
        assertInstanceOf(WatchEvent.Disconnected.class, watch.next());
    }

    @Test
    void g6WhatWasAskedForAfterABreakIsNotFollowedByOlderStates() throws InterruptedException {
        server.onGet = threadId -> FakeServer.state(threadId, 6, false);
        try (Watch watch = client.watchAll().open()) {
            tellsOfAAndBreaks(watch);
            FakeServer.WatchCall second = server.nextWatch();
            second.complete();
            assertState(watch.next(), "a", 6, true, true);
            assertComplete(watch.next());
            // The stream was behind the answer.
            for (int revision = 2; revision <= 6; revision++) {
                second.state("a", revision, revision % 2 == 1);
            }
            second.state("b", 1, true);
            assertState(watch.next(), "b", 1, false, true);
            second.state("a", 7, true);
            assertState(watch.next(), "a", 7, false, true);
        }
    }

    @Test
    void aQuestionOfAllThatComesTooOftenIsAskedAgain() throws InterruptedException {
        AtomicInteger asked = new AtomicInteger();
        server.onGet = threadId -> {
            if (asked.incrementAndGet() == 1) {
                // Longer than a call may take: the call ends with the refusal.
                throw FailureTest.exceeded("calls-per-second-per-caller", Duration.ofMinutes(1));
            }
            return FakeServer.state(threadId, 2, false);
        };
        try (Watch watch = client.watchAll().open()) {
            tellsOfAAndBreaks(watch);
            server.nextWatch().complete();
            assertState(watch.next(), "a", 2, true, true);
            assertComplete(watch.next());
            assertEquals(2, asked.get());
        }
    }

    @Test
    void g7AReaderOfAllThatStandsStillIsNotToldMoreThanItsBacklog() throws InterruptedException {
        try (Core core = new Core(Config.builder().address(server.address()).build())) {
            Outbox outbox = new Outbox(true);
            Calls.Patience patience = new Calls.Patience(Duration.ofSeconds(10), 0);
            core.watchSet(outbox, true, false, patience);
            FakeServer.WatchCall stream = server.nextWatch();
            stream.complete();
            int threads = 3 * Outbox.BACKLOG;
            // A mebibyte and more: what has no room on the way must not keep other calls from their answers.
            String name = "x".repeat(200);
            for (int thread = 0; thread < threads; thread++) {
                stream.state(name + thread, 2);
            }
            stream.state("last", 1, true);
            while (outbox.size() < Outbox.BACKLOG) {
                Calls.await(core.calls().get("t", patience));
            }
            for (int call = 0; call < 10; call++) {
                Calls.await(core.calls().get("t", patience));
            }
            assertEquals(Outbox.BACKLOG, outbox.size());
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
    void aListenerThatThrowsIsToldTheNextEvent() throws InterruptedException {
        BlockingQueue<WatchEvent> told = new LinkedBlockingQueue<>();
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
        Duration firstAnswer = Duration.ofMillis(200);
        Client hasty = client.withDeadline(firstAnswer);
        try (Watch watch = hasty.watch("a").open()) {
            FakeServer.WatchCall silent = server.nextWatch();
            assertInstanceOf(WatchEvent.Disconnected.class, watch.next());
            assertEnds(silent);
            FakeServer.WatchCall heard = server.nextWatch();
            heard.state("a", 1);
            assertState(watch.next(), "a", 1, true, true);
            assertEquals(Optional.empty(), watch.next(firstAnswer.multipliedBy(3)));
            assertFalse(heard.observer().isCancelled(), "once it was heard, it may be silent for two heartbeats");
        }
    }
}
