package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import dev.pausewatch.v1.DecrementElicitationResponse;
import dev.pausewatch.v1.IncrementElicitationRequest;
import dev.pausewatch.v1.IncrementElicitationResponse;
import io.grpc.ChannelCredentials;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class CallsTest {
    private static final IncrementElicitation CALL = IncrementElicitation.of("t");

    private final FakeServer server = new FakeServer();
    private final Client client = Client.open(config().build());

    private Config.Builder config() {
        return Config.builder().address(server.address());
    }

    @AfterEach
    void close() {
        client.close();
        server.close();
    }

    private static IncrementElicitationResponse count(int count) {
        return IncrementElicitationResponse.newBuilder().setCount(count).build();
    }

    private static double seconds(Runnable work) {
        long start = System.nanoTime();
        work.run();
        return (System.nanoTime() - start) / 1e9;
    }

    @Test
    void g4ARetriedCallCarriesTheSameRequestId() {
        server.onIncrement = (number, answer) -> {
            if (number < 3) {
                answer.onError(Status.UNAVAILABLE.asRuntimeException());
            } else {
                FakeServer.answer(answer, count(7));
            }
        };
        assertEquals(7, client.incrementElicitation(CALL).count());
        assertThreeIncrementsOfOneRequestId();
        assertFalse(server.increments.get(0).getRequestId().isEmpty());
        client.incrementElicitation(CALL);
        assertFalse(server.increments
                .get(3)
                .getRequestId()
                .equals(server.increments.get(0).getRequestId()));
    }

    @Test
    void aStoreThatCannotWriteIsRetriedAndARefusalIsNot() {
        server.onIncrement = (number, answer) -> {
            boolean first = number == 1;
            String reason = first ? "STORE_UNAVAILABLE" : "TOO_MANY_ELICITATIONS";
            Status.Code code = first ? Status.Code.UNAVAILABLE : Status.Code.RESOURCE_EXHAUSTED;
            answer.onError(FailureTest.refusal(code, reason, "pausewatch"));
        };
        assertThrows(TooManyElicitationsException.class, () -> client.incrementElicitation(CALL));
        assertEquals(2, server.increments.size());
    }

    /** Whoever waits waits here, until the test ends the wait. */
    private static final class WaitingTimer implements Timer {
        private record Wait(long nanos, Runnable task) {}

        private final BlockingQueue<Wait> waits = new LinkedBlockingQueue<>();

        @Override
        public long now() {
            return 0;
        }

        @Override
        public Alarm in(long nanos, Runnable task) {
            waits.add(new Wait(nanos, task));
            return Alarm.NONE;
        }

        @Override
        public void execute(Runnable task) {
            task.run();
        }

        /** Ends the next wait: how long it would have been, in milliseconds. */
        double pass() throws InterruptedException {
            Wait wait = waits.poll(10, TimeUnit.SECONDS);
            assertNotNull(wait, "nobody waits");
            wait.task.run();
            return wait.nanos / 1e6;
        }
    }

    /** A call with a deadline of a minute, of a clock that stands still. */
    private CompletableFuture<IncrementResult> call(Timer timer, int retries) {
        Config config = config().build();
        ChannelCredentials credentials = Transport.credentials(config, List.of(config.address()));
        Connection connection =
                new Connection(Transport.channel(config, config.address(), credentials), "localhost:7420");
        return new Calls(connection, timer)
                .increment(CALL, new Calls.RetryPolicy(Duration.ofMinutes(1), retries))
                .orTimeout(10, TimeUnit.SECONDS)
                .whenComplete((result, thrown) -> connection.close());
    }

    private LimitExceededException limitExceeded(CompletableFuture<?> call) {
        CompletionException ended = assertThrows(CompletionException.class, call::join);
        return assertInstanceOf(LimitExceededException.class, ended.getCause());
    }

    @Test
    void theSharedVectors() throws IOException, InterruptedException {
        for (JsonObject each : Vectors.cases("retries.json")) {
            Vectors.known(each, "name", "code", "reason", "limit", "retry_after_ms", "repeated", "pauses_ms");
            String name = each.get("name").getAsString();
            StatusRuntimeException error = FailureTest.error(each);
            server.onIncrement = (number, answer) -> answer.onError(error);
            WaitingTimer timer = new WaitingTimer();
            CompletableFuture<IncrementResult> call = call(timer, Integer.MAX_VALUE);
            if (each.get("repeated").getAsBoolean()) {
                for (JsonElement pause : each.getAsJsonArray("pauses_ms")) {
                    double least = pause.getAsJsonArray().get(0).getAsDouble();
                    double most = pause.getAsJsonArray().get(1).getAsDouble();
                    double passed = timer.pass();
                    assertTrue(passed >= least && passed <= most, name + ": " + passed + " ms");
                }
                call.cancel(false);
            } else {
                assertThrows(CompletionException.class, call::join, name);
                assertTrue(timer.waits.isEmpty(), name);
            }
        }
    }

    @Test
    void g4ACallOverTheRateLimitIsRetriedWithTheSameRequestId() throws InterruptedException {
        server.onIncrement = (number, answer) -> {
            if (number < 3) {
                Duration retryDelay = number == 1 ? Duration.ofMillis(20) : null;
                answer.onError(FailureTest.exceeded("calls-per-second-per-caller", retryDelay));
            } else {
                FakeServer.answer(answer, count(7));
            }
        };
        WaitingTimer timer = new WaitingTimer();
        CompletableFuture<IncrementResult> call = call(timer, 10);
        // Each with the pause beside it, which is random: 25 to 50 ms at first, then 50 to 100 ms.
        double first = timer.pass();
        assertTrue(first >= 20 + 25 && first <= 20 + 50, first + " ms");
        double second = timer.pass();
        assertTrue(second >= 1_000 + 50 && second <= 1_000 + 100, second + " ms");
        assertEquals(7, call.join().count());
        assertThreeIncrementsOfOneRequestId();
    }

    @Test
    void aWaitThatWouldPassTheDeadlineIsNotBegun() {
        for (Duration retryDelay : List.of(Duration.ofMinutes(1), Duration.ofDays(400_000))) {
            server.onIncrement =
                    (number, answer) -> answer.onError(FailureTest.exceeded("calls-per-second", retryDelay));
            WaitingTimer timer = new WaitingTimer();
            LimitExceededException error = limitExceeded(call(timer, 10));
            assertEquals(Optional.of(retryDelay), error.retryAfter());
            assertTrue(timer.waits.isEmpty());
        }
        assertEquals(2, server.increments.size());
    }

    @Test
    void aLastingRateLimitIsReportedAfterTheLastRetry() throws InterruptedException {
        server.onIncrement =
                (number, answer) -> answer.onError(FailureTest.exceeded("calls-per-second", Duration.ofSeconds(1)));
        WaitingTimer timer = new WaitingTimer();
        CompletableFuture<IncrementResult> call = call(timer, 1);
        timer.pass();
        assertEquals("calls-per-second", limitExceeded(call).limit());
        assertEquals(2, server.increments.size());
    }

    /** A refusal with details that nobody can read. */
    private static StatusRuntimeException garbled(Status status) {
        Metadata trailers = new Metadata();
        trailers.put(
                Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER), new byte[] {-1, -1, -1});
        return status.asRuntimeException(trailers);
    }

    @Test
    void aRefusalWithDetailsThatCannotBeReadIsKnownByItsCode() {
        server.onIncrement = (number, answer) -> answer.onError(garbled(Status.PERMISSION_DENIED));
        assertTimeoutPreemptively(
                Duration.ofSeconds(10),
                () -> assertThrows(PermissionDeniedException.class, () -> client.incrementElicitation(CALL)));
    }

    @Test
    void aWatchThatEndsWithDetailsThatCannotBeReadHeals() throws InterruptedException {
        try (Watch watch = client.watch("t").open()) {
            server.nextWatch().observer().onError(garbled(Status.UNAVAILABLE));
            server.nextWatch().state("t", 1);
            assertInstanceOf(Watch.Event.Disconnected.class, watch.next());
        }
    }

    @Test
    void aCallEndsWithItsDeadline() {
        server.onIncrement = (number, answer) -> {};
        Client hasty = client.withDeadline(Duration.ofMillis(300));
        double took = seconds(() -> {
            DeadlineExceededException error =
                    assertThrows(DeadlineExceededException.class, () -> hasty.incrementElicitation(CALL));
            assertEquals("no answer within 300ms", error.getMessage());
        });
        assertTrue(took > 0.29 && took < 3, took + " s");
    }

    @Test
    void aReplicaWithoutAnAnswerIsReportedWithTheAddress() {
        server.onIncrement = (number, answer) -> {};
        try (FakeServer other = new FakeServer()) {
            other.onIncrement = server.onIncrement;
            String address = server.address() + "," + other.address();
            Config config = config().address(address)
                    .retries(0)
                    .deadline(Duration.ofMinutes(1))
                    .build();
            try (Client fleet = Client.open(config)) {
                UnavailableException error =
                        assertThrows(UnavailableException.class, () -> fleet.incrementElicitation(CALL));
                assertEquals(address + ": no answer within 1500ms", error.getMessage());
            }
            assertEquals(List.of(1, 1), List.of(server.increments.size(), other.increments.size()));
        }
    }

    @Test
    void g4AConnectionThatBreaksDuringACallIsUnavailableAndRetried() throws InterruptedException {
        CountDownLatch arrived = new CountDownLatch(1);
        server.onIncrement = (number, answer) -> {
            if (number == 1) {
                arrived.countDown();
            } else {
                FakeServer.answer(answer, count(2));
            }
        };
        CompletableFuture<IncrementResult> call =
                CompletableFuture.supplyAsync(() -> client.incrementElicitation(CALL));
        assertTrue(arrived.await(10, TimeUnit.SECONDS));
        server.stop();
        server.restart();
        assertEquals(2, call.join().count());
        assertEquals(
                server.increments.get(0).getRequestId(),
                server.increments.get(1).getRequestId());
    }

    @Test
    void aConnectionThatBreaksDuringACallWithoutRetriesIsUnavailable() throws InterruptedException {
        CountDownLatch arrived = new CountDownLatch(1);
        server.onIncrement = (number, answer) -> arrived.countDown();
        try (Client once = Client.open(config().retries(0).build())) {
            CompletableFuture<IncrementResult> call =
                    CompletableFuture.supplyAsync(() -> once.incrementElicitation(CALL));
            assertTrue(arrived.await(10, TimeUnit.SECONDS));
            server.stop();
            assertEquals(
                    UnavailableException.class,
                    call.handle((result, thrown) -> thrown.getCause().getClass())
                            .join());
        }
    }

    @Test
    void aServerThatWasAwayForLongIsReachedAtOnce() {
        try (Client once =
                Client.open(config().retries(0).deadline(Duration.ofMinutes(1)).build())) {
            server.stop();
            // Each failure would double the channel's own reconnect delay.
            for (int failure = 0; failure < 20; failure++) {
                assertThrows(UnavailableException.class, () -> once.incrementElicitation(CALL));
            }
            server.restart();
            double took = seconds(() -> once.incrementElicitation(CALL));
            assertTrue(took < 20, took + " s");
        }
    }

    @Test
    void withoutAServerACallEndsByItsDeadlineWithTheCause() {
        server.stop();
        try (Client patient =
                Client.open(config().deadline(Duration.ofMinutes(1)).build())) {
            Client hasty = patient.withDeadline(Duration.ofMillis(500));
            double took =
                    seconds(() -> assertThrows(UnavailableException.class, () -> hasty.incrementElicitation(CALL)));
            assertTrue(took < 20, took + " s");
        }
    }

    @Test
    void whatSpeaksNoHttp2IsUnavailableWithItsAddressAndTheCause() throws IOException {
        try (ServerSocket web = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Thread answering = new Thread(() -> {
                try (Socket asked = web.accept()) {
                    asked.getOutputStream()
                            .write("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
                    asked.getInputStream().readAllBytes();
                } catch (IOException closed) {
                    // The test is over.
                }
            });
            answering.setDaemon(true);
            answering.start();
            String address = "127.0.0.1:" + web.getLocalPort();
            Config config = Config.builder().address(address).retries(0).build();
            try (Client lost = Client.open(config)) {
                UnavailableException error = assertThrows(UnavailableException.class, () -> lost.getPauseState("t"));
                assertTrue(error.getMessage().startsWith(address + ": "), error.getMessage());
                assertTrue(error.getMessage().contains("SETTINGS"), error.getMessage());
            }
        }
    }

    @Test
    void anInterruptedCallIsGivenUp() throws InterruptedException {
        CountDownLatch arrived = new CountDownLatch(1);
        server.onIncrement = (number, answer) -> arrived.countDown();
        CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
        Thread caller = new Thread(() -> {
            OtherException error = assertThrows(OtherException.class, () -> client.incrementElicitation(CALL));
            assertEquals(Status.Code.CANCELLED, error.status().getCode());
            interrupted.complete(Thread.currentThread().isInterrupted());
        });
        caller.start();
        assertTrue(arrived.await(10, TimeUnit.SECONDS));
        caller.interrupt();
        assertTrue(interrupted.join());
        assertTrue(server.cancelled.await(10, TimeUnit.SECONDS), "the server is told");
    }

    @Test
    void closingTheClientEndsACallThatWaitsToTryAgain() throws InterruptedException {
        server.onIncrement = (number, answer) -> answer.onError(Status.UNAVAILABLE.asRuntimeException());
        Client patient = client.withDeadline(Duration.ofHours(1));
        CompletableFuture<IncrementResult> call =
                CompletableFuture.supplyAsync(() -> patient.incrementElicitation(CALL));
        for (int wait = 0; wait < 1_000 && server.increments.size() < 3; wait++) {
            Thread.sleep(10);
        }
        assertTrue(server.increments.size() >= 3, "it tries again and again");
        client.close();
        CompletionException ended = assertThrows(
                CompletionException.class,
                () -> call.orTimeout(5, TimeUnit.SECONDS).join());
        assertEquals(UnavailableException.class, ended.getCause().getClass());
    }

    @Test
    void aFailedReleaseIsRetriedInTheBackgroundByAClientWithoutRetriesToo() throws InterruptedException {
        CountDownLatch released = new CountDownLatch(1);
        server.onIncrement = (number, answer) -> FakeServer.answer(
                answer,
                IncrementElicitationResponse.newBuilder()
                        .setElicitation(
                                dev.pausewatch.v1.Elicitation.newBuilder().setElicitationId("e"))
                        .build());
        server.onDecrement = (number, answer) -> {
            if (number <= 3) {
                answer.onError(Status.UNAVAILABLE.asRuntimeException());
            } else {
                FakeServer.answer(answer, DecrementElicitationResponse.getDefaultInstance());
                released.countDown();
            }
        };
        try (Client impatient = Client.open(config().retries(0).build())) {
            Hold hold = impatient.hold("t").open();
            assertThrows(UnavailableException.class, hold::release);
            assertEquals(1, server.decrements.size());
            assertThrows(UnavailableException.class, hold::close);
            assertTrue(released.await(10, TimeUnit.SECONDS), "it is retried");
        }
        assertEquals(4, server.decrements.size());
        assertEquals(1, server.decrements.stream().distinct().count(), "one request id");
    }

    @Test
    void theLeaseOfAHoldIsWhatTheReleaseInTheBackgroundFinds() throws Exception {
        AtomicBoolean isBack = new AtomicBoolean();
        server.onDecrement = (number, answer) -> answer.onError(
                isBack.get()
                        ? FailureTest.refusal(Status.Code.FAILED_PRECONDITION, "ELICITATION_EXPIRED", "pausewatch")
                        : Status.UNAVAILABLE.asRuntimeException());
        try (Client impatient = Client.open(config().retries(0).build())) {
            Hold hold = impatient.hold("t").ttl(Duration.ofHours(1)).open();
            assertThrows(UnavailableException.class, hold::close);
            assertEquals(Lease.HELD, hold.lease());
            CompletableFuture<Lease> lost = hold.lost();
            isBack.set(true);
            assertEquals(Lease.EXPIRED, lost.get(10, TimeUnit.SECONDS));
        }
    }

    @Test
    void aReleaseInTheBackgroundThatIsRefusedLeavesTheLeaseOverdue() throws Exception {
        server.onDecrement = (number, answer) ->
                answer.onError((number == 1 ? Status.UNAVAILABLE : Status.PERMISSION_DENIED).asRuntimeException());
        try (Client impatient = Client.open(config().retries(0).build())) {
            Hold hold = impatient.hold("t").ttl(Duration.ofHours(1)).open();
            assertThrows(UnavailableException.class, hold::close);
            assertEquals(Lease.OVERDUE, hold.lost().get(10, TimeUnit.SECONDS));
        }
    }

    @Test
    void aBestEffortHoldFailsIfItsClientIsBeingClosed() throws Exception {
        CompletableFuture<StreamObserver<IncrementElicitationResponse>> asked = new CompletableFuture<>();
        server.onIncrement = (number, answer) -> {
            if (number == 1) {
                asked.complete(answer);
            } else {
                FakeServer.answer(answer, count(1));
            }
        };
        try (Client impatient =
                Client.open(config().retries(0).deadline(Duration.ofMinutes(1)).build())) {
            CompletableFuture<Hold> opening = impatient.hold("t").bestEffort().openAsync();
            StreamObserver<IncrementElicitationResponse> answer = asked.get(10, TimeUnit.SECONDS);
            CompletableFuture<Void> closed = CompletableFuture.runAsync(impatient::close);
            boolean isClosing = false;
            while (!isClosing) {
                try {
                    impatient.hold("u").open().close();
                } catch (IllegalStateException closing) {
                    isClosing = true;
                }
            }
            answer.onError(Status.UNAVAILABLE.asRuntimeException());
            ExecutionException failed = assertThrows(ExecutionException.class, () -> opening.get(10, TimeUnit.SECONDS));
            assertInstanceOf(UnavailableException.class, failed.getCause());
            closed.get(10, TimeUnit.SECONDS);
        }
    }

    @Test
    void aClosedClientSaysSoAtOnce() {
        Client patient = client.withDeadline(Duration.ofMinutes(1));
        client.close();
        client.close();
        double took =
                seconds(() -> assertThrows(IllegalStateException.class, () -> patient.incrementElicitation(CALL)));
        assertTrue(took < 10, took + " s");
        assertThrows(IllegalStateException.class, () -> client.watch("t").open());
    }

    @Test
    void aTokenGoesWithEveryCall() {
        client.getPauseState("t");
        try (Client known = Client.open(config().token("secret").build())) {
            known.getPauseState("t");
        }
        assertEquals(List.of("null", "Bearer secret"), server.authorizations);
    }

    private void assertThreeIncrementsOfOneRequestId() {
        assertEquals(3, server.increments.size());
        assertEquals(
                1,
                server.increments.stream()
                        .map(IncrementElicitationRequest::getRequestId)
                        .distinct()
                        .count());
    }
}
