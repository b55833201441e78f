package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.pausewatch.v1.SnapshotComplete;
import dev.pausewatch.v1.WatchRequest;
import dev.pausewatch.v1.WatchResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
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
        WatchLink.Environment environment = new WatchLink.Environment(connection, timer, Duration.ofSeconds(5));
        Outbox outbox = new Outbox(false);
        WatchLink link = new WatchLink(environment, outbox, WatchRequest.getDefaultInstance());
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

    private static WatchResponse complete() {
        return WatchResponse.newBuilder()
                .setSnapshotComplete(SnapshotComplete.getDefaultInstance())
                .build();
    }
}
