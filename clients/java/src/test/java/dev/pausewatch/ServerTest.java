package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Context;
import io.grpc.ForwardingClientCall;
import io.grpc.ForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Against a real server: what the shared scenarios cannot see from outside. */
@EnabledIfEnvironmentVariable(named = "PAUSEWATCH_PROGRAM", matches = ".+")
class ServerTest {
    private static final Duration TTL = Duration.ofSeconds(5);
    private static RealServer server;

    private final Client client =
            Client.open(Config.builder().address(server.address()).build());
    private final String thread;

    ServerTest(TestInfo test) {
        thread = test.getTestMethod().orElseThrow().getName();
    }

    @BeforeAll
    static void serve() throws IOException {
        server = new RealServer("127.0.0.1:0");
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    @AfterEach
    void close() {
        client.close();
    }

    @Test
    void anInterceptorThatThrowsDoesNotEndTheRenewals() throws Exception {
        TransportTest.Failing renewals =
                new TransportTest.Failing("RenewElicitation", call -> call == 1, new AtomicInteger());
        Config config = Config.builder()
                .address(server.address())
                .interceptors(renewals)
                .build();
        try (Client failing = Client.open(config);
                Hold hold = failing.hold(thread).ttl(TTL).open()) {
            await(() -> renewals.calls().get() > 2);
            assertEquals(Lease.HELD, hold.lease());
        }
    }

    @Test
    void aTokenSourceThatBlocksStopsNeitherTimeoutsNorDeadlinesNorClose() throws Exception {
        CompletableFuture<String> given = CompletableFuture.completedFuture("token");
        CompletableFuture<String> withheld = new CompletableFuture<>();
        AtomicReference<CompletableFuture<String>> token = new AtomicReference<>(given);
        Config config = Config.builder()
                .address(server.address())
                .tokenSource(() -> token.get().join())
                .build();
        Client blocked = Client.open(config);
        try {
            Hold hold = blocked.hold("another").ttl(TTL).open();
            PausableDeadline deadline = blocked.deadline(thread, Duration.ofSeconds(1));
            await(() -> deadline.read().linked());
            token.set(withheld);
            DeadlineExceededException late = assertThrows(
                    DeadlineExceededException.class,
                    () -> blocked.withDeadline(Duration.ofMillis(10)).getPauseState(thread));
            assertEquals("the token source gave no token within 10ms", late.getMessage());
            // Renewals wait for a token, those that are due before and after.
            deadline.expired().get(30, TimeUnit.SECONDS);
            await(() -> hold.lease() == Lease.OVERDUE);
        } finally {
            blocked.close();
            withheld.complete("token");
        }
    }

    private int count() {
        return client.getPauseState(thread).count();
    }

    private static void await(BooleanSupplier condition) throws InterruptedException {
        for (int wait = 0; wait < 3_000 && !condition.getAsBoolean(); wait++) {
            Thread.sleep(10);
        }
        assertTrue(condition.getAsBoolean());
    }

    /** Ends a lease behind the back of its holder: it is renewed to less than it takes to renew it again. */
    private void letExpire(Hold hold) throws InterruptedException {
        client.renewElicitation(
                RenewElicitation.of(thread, hold.elicitation().elicitationId()).withTtl(TTL));
        await(() -> count() == 0);
    }

    @Test
    @SuppressWarnings("try")
    void aBlockReleasesHoweverItEnds() {
        try (Hold hold = client.hold(thread).open()) {
            assertEquals(1, count());
        }
        assertEquals(0, count());
        assertThrows(IllegalStateException.class, () -> {
            try (Hold hold = client.hold(thread).open()) {
                throw new IllegalStateException("the block's own");
            }
        });
        assertEquals(0, count());
    }

    @Test
    void aBlockWithinACancelledGrpcCallReleasesAllTheSame() {
        try (Context.CancellableContext call = Context.current().withCancellation()) {
            call.run(() -> {
                try (Hold hold = client.hold(thread).open()) {
                    call.cancel(null);
                    assertEquals(1, hold.opened().count());
                    try (Hold second = client.hold(thread).open()) {
                        assertEquals(2, second.opened().count());
                    }
                }
            });
        }
        assertEquals(0, count());
    }

    @Test
    void aBlockReportsALateAnswer() throws InterruptedException {
        Hold hold = client.hold(thread).open();
        letExpire(hold);
        assertThrows(ElicitationExpiredException.class, hold::close);
        assertThrows(ElicitationExpiredException.class, hold::close, "and each time");
        assertInstanceOf(Ending.Expired.class, hold.release());
        assertEquals(Lease.EXPIRED, hold.lease());
    }

    @Test
    @SuppressWarnings("try")
    void theExceptionOfTheBlockComesBeforeALateAnswer() {
        IllegalStateException own = assertThrows(IllegalStateException.class, () -> {
            try (Hold hold = client.hold(thread).open()) {
                letExpire(hold);
                throw new IllegalStateException("the block's own");
            }
        });
        assertInstanceOf(ElicitationExpiredException.class, own.getSuppressed()[0]);
    }

    @Test
    void aReleaseByManyAtOnceCountsOnceAndSaysTheSame() {
        client.incrementElicitation(IncrementElicitation.of(thread));
        Hold hold = client.hold(thread).open();
        List<CompletableFuture<Ending>> releases = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            releases.add(CompletableFuture.supplyAsync(hold::release));
        }
        Ending.Closed first =
                assertInstanceOf(Ending.Closed.class, releases.get(0).join());
        assertEquals(1, first.count());
        releases.forEach(release -> assertEquals(first, release.join()));
        assertEquals(1, count());
        assertEquals(Lease.RELEASED, hold.lost().join());
    }

    @Test
    void anInterruptedOpenLeavesNothingOpen() throws InterruptedException {
        Thread.currentThread().interrupt();
        assertThrows(OtherException.class, () -> client.hold(thread).open());
        assertTrue(Thread.interrupted());
        await(() -> {
            PauseState state = client.getPauseState(thread);
            return state.count() == 0 && !state.pausedTotal().isZero();
        });
    }

    @Test
    void anInterruptedReleaseGoesOn() throws InterruptedException {
        Hold hold = client.hold(thread).open();
        Thread.currentThread().interrupt();
        assertThrows(OtherException.class, hold::release);
        assertTrue(Thread.interrupted());
        await(() -> count() == 0);
        assertInstanceOf(Ending.Closed.class, hold.release());
    }

    @Test
    void aClosedClientHasFinishedItsReleases() {
        for (int i = 0; i < 10; i++) {
            try (Client other =
                    Client.open(Config.builder().address(server.address()).build())) {
                other.hold(thread).open().releaseAsync();
            }
            assertEquals(0, count(), "released without waiting");
            try (Client other =
                    Client.open(Config.builder().address(server.address()).build())) {
                other.getPauseState(thread);
                Thread.currentThread().interrupt();
                assertThrows(OtherException.class, () -> other.hold(thread).open());
            }
            assertTrue(Thread.interrupted());
            assertEquals(0, count(), "interrupted in open()");
        }
    }

    @Test
    void aClosedClientHasReleasedWhatWasBeingOpened() throws InterruptedException {
        CompletableFuture<Void> answered = new CompletableFuture<>();
        ClientInterceptor late = new ClientInterceptor() {
            @Override
            public <Q, R> ClientCall<Q, R> interceptCall(
                    MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
                ClientCall<Q, R> call = next.newCall(method, options);
                return new ForwardingClientCall.SimpleForwardingClientCall<>(call) {
                    @Override
                    public void start(Listener<R> listener, Metadata headers) {
                        super.start(
                                new ForwardingClientCallListener.SimpleForwardingClientCallListener<>(listener) {
                                    @Override
                                    public void onClose(Status status, Metadata trailers) {
                                        // Not on this thread of the transport: another client may need it.
                                        if (method.getFullMethodName().endsWith("/IncrementElicitation")) {
                                            answered.thenRunAsync(() -> super.onClose(status, trailers));
                                        } else {
                                            super.onClose(status, trailers);
                                        }
                                    }
                                },
                                headers);
                    }
                };
            }
        };
        Client other = Client.open(
                Config.builder().address(server.address()).interceptors(late).build());
        CompletableFuture<Hold> opening = other.hold(thread).openAsync();
        await(() -> count() == 1);
        Thread close = new Thread(other::close);
        close.start();
        await(() -> close.getState() == Thread.State.TIMED_WAITING);
        answered.complete(null);
        close.join();
        ExecutionException closed = assertThrows(ExecutionException.class, opening::get);
        assertInstanceOf(IllegalStateException.class, closed.getCause());
        assertEquals(0, count());
    }

    @Test
    void aReleaseAfterTheEndOfItsClientSaysThatTheClientIsClosed() {
        Hold hold = client.hold(thread).open();
        client.close();
        for (Executable release : List.<Executable>of(hold::release, hold::close)) {
            assertEquals(
                    "the client is closed",
                    assertThrows(IllegalStateException.class, release).getMessage());
        }
        Throwable later = hold.releaseAsync()
                .handle((ending, thrown) -> thrown)
                .orTimeout(10, TimeUnit.SECONDS)
                .join();
        assertInstanceOf(IllegalStateException.class, later);
    }

    @Test
    void aClientThatIsClosedByWhatIsAttachedToAnOpenedHoldDoesNotWaitForIt() throws Exception {
        Config config = Config.builder()
                .address(server.address())
                .deadline(Duration.ofHours(1))
                .build();
        Client other = Client.open(config);
        other.hold(thread)
                .openAsync()
                .thenAccept(Hold::close)
                .thenRun(other::close)
                .get(30, TimeUnit.SECONDS);
        assertEquals(0, count());
    }

    @Test
    void aHoldOfABadThreadIsRefused() {
        InvalidFieldException error = assertThrows(
                InvalidFieldException.class,
                () -> client.hold(thread).ttl(Duration.ofMillis(100)).open());
        assertEquals("ttl", error.field());
        assertThrows(ConfigException.class, () -> client.hold().open());
    }

    @Test
    void theHolderIsThisProgramByDefault() {
        try (Hold hold = client.hold(thread).open()) {
            String holder = hold.elicitation().holder();
            assertTrue(holder.endsWith("[" + ProcessHandle.current().pid() + "]"), holder);
            assertFalse(holder.startsWith("["), holder);
        }
    }

    @Test
    void aFutureTimesOutAfterUnpausedTime() {
        try (PausableDeadline deadline = client.deadline(thread, Duration.ofMillis(200))) {
            CompletableFuture<String> never = new CompletableFuture<>();
            CompletionException failed = assertThrows(
                    CompletionException.class, () -> deadline.orTimeout(never).join());
            assertInstanceOf(TimeoutException.class, failed.getCause());
            assertTrue(deadline.isExpired());
            assertEquals(Duration.ZERO, deadline.remaining());
        }
    }

    @Test
    void aFutureThatIsOverIsLeftAlone() {
        try (PausableDeadline deadline = client.deadline(thread, Duration.ofMillis(50))) {
            CompletableFuture<String> done = CompletableFuture.completedFuture("done");
            assertEquals("done", deadline.orTimeout(done).join());
            deadline.expired().join();
            assertEquals("done", done.join());
        }
    }

    @Test
    void aDeadlineThatIsClosedDoesNotExpire() {
        PausableDeadline deadline = client.deadline(thread, Duration.ofMillis(50));
        CompletableFuture<Void> expired = deadline.expired();
        deadline.close();
        deadline.close();
        assertThrows(CompletionException.class, expired::join);
        assertFalse(deadline.isExpired());
    }

    @Test
    void workPausesItsDeadlineUntilItIsOver() {
        try (PausableDeadline deadline = client.deadline(thread, Duration.ofSeconds(30))) {
            CompletableFuture<Void> work = new CompletableFuture<>();
            deadline.pauseFor(work);
            assertTrue(deadline.isPaused());
            work.cancel(false);
            assertFalse(deadline.isPaused());
            PausableDeadline.Pause pause = deadline.pause();
            pause.close();
            pause.close();
            assertFalse(deadline.isPaused(), "a pause ends once");
        }
    }

    @Test
    void aThreadThatIsAwaitedPausesTheDeadlineUntilTheWaitIsOver() {
        String child = thread + "-child";
        try (Hold hold = client.hold(child).open()) {
            assertEquals(1, hold.opened().count());
            PausableDeadline deadline = client.deadline(thread, Duration.ofMillis(500));
            PausableDeadline.Pause starting = deadline.pause();
            PausableDeadline.Wait wait = deadline.awaitThread(child);
            PausableDeadline.Wait again = deadline.awaitThread(child);
            starting.close();
            wait.close();
            wait.close();
            assertThrows(TimeoutException.class, () -> deadline.expired().get(1_500, TimeUnit.MILLISECONDS));
            assertTrue(deadline.isPaused());
            for (String bad : List.of(thread, "")) {
                InvalidFieldException refused =
                        assertThrows(InvalidFieldException.class, () -> deadline.awaitThread(bad));
                assertEquals("thread_id", refused.field());
            }
            again.close();
            deadline.expired().join();
            assertEquals(Optional.of(EndedBy.LIMIT), deadline.endedBy());
            deadline.close();
            deadline.awaitThread("late").close();
            assertEquals(1, client.getPauseState(child).count());
        }
    }

    @Test
    void aContinuationThatBlocksHoldsUpNoOtherDeadline() {
        CompletableFuture<Void> free = new CompletableFuture<>();
        try (PausableDeadline one = client.deadline(thread, Duration.ofMillis(20));
                PausableDeadline other = client.deadline(thread, Duration.ofMillis(40))) {
            CompletableFuture<Void> blocked = one.expired().thenRun(free::join);
            other.expired().join();
            free.complete(null);
            blocked.join();
        }
    }

    @Test
    void manyDeadlinesShareOneStreamAndNoThreadIsMadeForThem() throws InterruptedException {
        client.getPauseState(thread);
        int threads = Thread.activeCount();
        List<PausableDeadline> deadlines = new ArrayList<>();
        for (int i = 0; i < 2_000; i++) {
            deadlines.add(client.deadline(thread + i, Duration.ofHours(1)));
        }
        await(() -> deadlines.stream().allMatch(deadline -> deadline.read().linked()));
        assertTrue(Thread.activeCount() <= threads + 4, "from " + threads + " to " + Thread.activeCount());
        assertEquals(
                1,
                client.incrementElicitation(IncrementElicitation.of(thread + 1_999))
                        .watchers());
        await(() -> deadlines.get(1_999).isPaused());
        deadlines.forEach(PausableDeadline::close);
    }

    @Test
    void aThreadIsFollowedForAWhileAfterItsLastDeadline() throws InterruptedException {
        PausableDeadline first = client.deadline(thread, Duration.ofHours(1));
        await(() -> first.read().linked());
        first.close();
        client.incrementElicitation(IncrementElicitation.of(thread));
        await(() -> {
            try (PausableDeadline next = client.deadline(thread, Duration.ofHours(1))) {
                return next.read().linked() && next.isPaused();
            }
        });
    }

    @Test
    void closingTheClientEndsItsWatchesAndLetsItsDeadlinesRunOut() throws InterruptedException {
        client.incrementElicitation(IncrementElicitation.of(thread));
        Watch watch = client.watch(thread).open();
        PausableDeadline deadline = client.deadline(thread, Duration.ofMillis(500));
        PausableDeadline stopped = client.deadline(thread, Duration.ofHours(1));
        CompletableFuture<Void> expired = deadline.expired();
        PausableDeadline.Pause pause = stopped.pause();
        await(deadline::isPaused);
        client.close();
        assertFalse(watch.iterator().hasNext());
        assertDoesNotThrow(watch::close);
        assertFalse(deadline.isPaused());
        assertTrue(stopped.isPaused(), "its own pause goes on");
        assertThrows(IllegalStateException.class, () -> client.deadline(thread, Duration.ofHours(1)));
        assertDoesNotThrow(() -> stopped.awaitThread("another").close());
        pause.close();
        assertFalse(stopped.isPaused());
        expired.orTimeout(30, TimeUnit.SECONDS).join();
        assertEquals(Optional.of(EndedBy.LIMIT), deadline.endedBy());
        assertTrue(deadline.elapsed().compareTo(Duration.ofMillis(500)) >= 0);
        stopped.close();
        assertFalse(stopped.isExpired());
        assertDoesNotThrow(deadline::close);
    }

    @Test
    void workThatIsCalledIsInterruptedAtTheEndOfItsDeadline() throws Exception {
        PausableDeadline deadline = client.deadline(thread, Duration.ofMillis(100));
        TimeoutException late = assertThrows(
                TimeoutException.class,
                () -> deadline.call(() -> {
                    Thread.sleep(60_000);
                    return 1;
                }));
        assertTrue(late.getCause() instanceof InterruptedException);
        assertTrue(late.getMessage().contains("100"), late.getMessage());
        assertFalse(Thread.currentThread().isInterrupted());
        try (PausableDeadline long_ = client.deadline(thread, Duration.ofHours(1))) {
            assertEquals(7, long_.call(() -> 7));
            IOException own = new IOException("its own");
            assertEquals(
                    own,
                    assertThrows(
                            IOException.class,
                            () -> long_.call(() -> {
                                throw own;
                            })));
            Thread.currentThread().interrupt();
            assertThrows(
                    InterruptedException.class,
                    () -> long_.call(() -> {
                        Thread.sleep(60_000);
                        return 1;
                    }));
        }
    }

    @Test
    void aHoldWhoseClientIsClosedIsLost() {
        Hold hold = client.hold(thread).open();
        CompletableFuture<Lease> lost = hold.lost();
        client.close();
        assertEquals(Lease.OVERDUE, lost.orTimeout(10, TimeUnit.SECONDS).join());
        assertEquals(Lease.OVERDUE, hold.lease());
    }

    @Test
    void aProcessCanEndWithAnOpenClient() throws IOException, InterruptedException {
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-XX:TieredStopAtLevel=1",
                        "-cp",
                        System.getProperty("java.class.path"),
                        LeavesAllOpen.class.getName(),
                        server.address())
                .inheritIO()
                .start();
        assertTrue(process.waitFor(30, TimeUnit.SECONDS), "it ends by itself");
        assertEquals(0, process.exitValue());
    }

    @Test
    void aUnixSocketServesAPathWithAnyName(@TempDir Path directory)
            throws IOException, ExecutionException, InterruptedException {
        Path socket = directory.resolve("a b%20ü.sock");
        try (RealServer other = new RealServer("unix:" + socket);
                Client overSocket =
                        Client.open(Config.builder().address("unix:" + socket).build())) {
            assertEquals("unix:" + socket, other.address());
            assertEquals(0, overSocket.getPauseState(thread).count());
        }
    }

    /** A program that closes nothing. */
    static final class LeavesAllOpen {
        public static void main(String[] arguments) {
            Client client = Client.open(Config.builder().address(arguments[0]).build());
            client.hold("left open").ttl(TTL).open();
            client.watch("left open").open().next();
            client.deadline("left open", Duration.ofHours(1));
        }
    }
}
