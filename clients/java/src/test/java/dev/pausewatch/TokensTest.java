package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.pausewatch.v1.SnapshotComplete;
import dev.pausewatch.v1.WatchRequest;
import dev.pausewatch.v1.WatchResponse;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Context;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tokens that are replaced. */
class TokensTest {
    private static String jsonWebToken(String claims) {
        byte[] bytes = claims.getBytes(StandardCharsets.UTF_8);
        return "e30." + Base64.getUrlEncoder().withoutPadding().encodeToString(bytes) + ".c2ln";
    }

    @Test
    void aTokenIsRenewedAfterTwoThirdsOfItsRemainingLife() {
        Map<String, Integer> seconds = Map.of(
                jsonWebToken("{\"exp\":1030}"),
                20,
                jsonWebToken("{\"exp\":1000000}"),
                60,
                jsonWebToken("{\"exp\":1}"),
                1,
                jsonWebToken("{\"exp\":\"soon\"}"),
                60,
                "opaque",
                60,
                "e30.+.c2ln",
                60);
        seconds.forEach((token, wait) -> assertEquals(
                Duration.ofSeconds(wait).toNanos(),
                Tokens.askAgainAfterNanos(token, Instant.ofEpochSecond(1_000)),
                token));
    }

    @Test
    void aSourceThatFailsIsUnauthenticated() {
        Supplier<String> failing = () -> {
            throw new IllegalStateException("no such vault");
        };
        for (Supplier<String> source : List.of(failing, () -> "", () -> "two words")) {
            Config config =
                    Config.builder().address("127.0.0.1:1").tokenSource(source).build();
            try (Client client = Client.open(config)) {
                UnauthenticatedException error =
                        assertThrows(UnauthenticatedException.class, () -> client.getPauseState("t"));
                assertTrue(error.getMessage().startsWith("no token: "), error.getMessage());
            }
        }
    }

    @Test
    void aCallWithoutWaitingDoesNotWaitForItsTokenAndKeepsTheContextOfItsCaller() throws Exception {
        Context.Key<String> user = Context.key("user");
        List<String> users = new CopyOnWriteArrayList<>();
        CompletableFuture<String> token = new CompletableFuture<>();
        AtomicInteger calls = new AtomicInteger();
        try (FakeServer server = new FakeServer();
                Client client = Client.open(Config.builder()
                        .address(server.address())
                        .deadline(Duration.ofSeconds(30))
                        .tokenSource(token::join)
                        .interceptors(new ClientInterceptor() {
                            @Override
                            public <Q, R> ClientCall<Q, R> interceptCall(
                                    MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
                                users.add(String.valueOf(user.get()));
                                return next.newCall(method, options);
                            }
                        })
                        .build())) {
            server.onGet = threadId -> {
                if (calls.incrementAndGet() == 1) {
                    throw Status.UNAVAILABLE.asRuntimeException();
                }
                return FakeServer.state(threadId, 1, false);
            };
            CompletableFuture<PauseState> state = Context.current()
                    .withValue(user, "me")
                    .call(() -> client.async().getPauseState("t"));
            token.complete("token");
            assertEquals("t", state.get(30, TimeUnit.SECONDS).threadId());
            assertEquals(List.of("me", "me"), users);
            assertEquals(List.of("Bearer token", "Bearer token"), server.authorizations);
        }
    }

    @Test
    void aTokenFileIsReadEachTimeAndIsOfItsOwnLayer(@TempDir Path folder) throws IOException {
        Path path = folder.resolve("token");
        Map<String, String> environment = Map.of("PAUSEWATCH_TOKEN_FILE", path.toString());
        Config config = Config.fromEnv(environment::get).build();
        for (String text : new String[] {"first", "second\n"}) {
            Files.writeString(path, text);
            assertEquals(text.strip(), config.tokenSource().orElseThrow().get());
        }
        Config over = Config.fromEnv(environment::get).token("over").build();
        assertEquals(Optional.of("over"), over.token());
        assertTrue(over.tokenSource().isEmpty());
        Map<String, String> both = Map.of("PAUSEWATCH_TOKEN_FILE", path.toString(), "PAUSEWATCH_TOKEN", "t");
        assertThrows(ConfigException.class, () -> Config.fromEnv(both::get).build());
        assertThrows(
                ConfigException.class,
                () -> Config.fromEnv(environment::get).address("example.com:1").build());
    }

    @Test
    void anOpenStreamGetsTheNextToken() {
        AtomicReference<String> token = new AtomicReference<>("first");
        ManualTimer timer = new ManualTimer();
        FakeChannel channel = new FakeChannel();
        Connection connection =
                new Connection(List.of(() -> channel), "localhost:7420", Optional.of(token::get), Runnable::run);
        Outbox outbox = new Outbox(false);
        WatchLink link =
                new WatchLink(connection, timer, Duration.ofSeconds(5), outbox, WatchRequest.getDefaultInstance());
        link.add("t");
        timer.advance(Duration.ofMillis(1));
        channel.last().requests.remove();
        channel.last().tell(complete());
        token.set("second");
        for (int heartbeat = 0; heartbeat < 5; heartbeat++) {
            timer.advance(Duration.ofSeconds(14));
            channel.last().tell(WatchResponse.getDefaultInstance());
        }
        assertEquals("second", channel.last().requests.remove().getToken());
        channel.last().tell(complete());
        assertEquals(1, channel.streams.size());
        assertFalse(channel.last().cancelled);
    }

    @Test
    void aProblemOfTheSourceIsLoggedOnceUntilItWorksAgain() {
        AtomicReference<String> token = new AtomicReference<>("first");
        ManualTimer timer = new ManualTimer();
        FakeChannel channel = new FakeChannel();
        Connection connection =
                new Connection(List.of(() -> channel), "localhost:7420", Optional.of(token::get), Runnable::run);
        for (String threadId : List.of("t", "u")) {
            WatchLink link = new WatchLink(
                    connection, timer, Duration.ofSeconds(5), new Outbox(false), WatchRequest.getDefaultInstance());
            link.add(threadId);
            timer.advance(Duration.ofMillis(1));
            channel.last().requests.remove();
            channel.last().tell(complete());
        }
        List<String> logged = new ArrayList<>();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord logRecord) {
                logged.add(logRecord.getMessage());
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger log = Logger.getLogger(Connection.class.getName());
        log.addHandler(handler);
        try {
            for (String next : List.of("", "second", "")) {
                token.set(next);
                for (int heartbeat = 0; heartbeat < 10; heartbeat++) {
                    timer.advance(Duration.ofSeconds(14));
                    for (FakeChannel.Stream stream : channel.streams) {
                        stream.tell(stream.requests.poll() == null ? WatchResponse.getDefaultInstance() : complete());
                    }
                }
            }
        } finally {
            log.removeHandler(handler);
        }
        assertEquals(List.of("the token cannot be renewed", "the token cannot be renewed"), logged);
        assertEquals(2, channel.streams.size());
    }

    private static WatchResponse complete() {
        return WatchResponse.newBuilder()
                .setSnapshotComplete(SnapshotComplete.getDefaultInstance())
                .build();
    }
}
