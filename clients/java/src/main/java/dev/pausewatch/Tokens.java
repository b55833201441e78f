package dev.pausewatch;

import io.grpc.Status;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Base64;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Tokens that are replaced. A source is called for every attempt of a call and for every stream, and again while a
 * stream is open: after two thirds of the token's remaining lifetime, if it is a JSON web token, and at least once a
 * minute.
 */
final class Tokens {
    /** Also after the source has failed. */
    static final long SHORTEST_NANOS = TimeUnit.SECONDS.toNanos(1);

    private static final long LONGEST_NANOS = TimeUnit.SECONDS.toNanos(60);
    private static final Pattern END = Pattern.compile("\"exp\"\\s*:\\s*(\\d{1,15})");

    private Tokens() {}

    /** Whether the token can be sent: it is not empty, and visible ASCII. */
    static boolean isToken(String token) {
        return token.matches("[\\x21-\\x7e]+");
    }

    /** A source that reads the token from a file each time, and strips white space around it. */
    static Supplier<String> file(Path path) {
        return () -> {
            try {
                return Files.readString(path).strip();
            } catch (IOException unreadable) {
                throw new UncheckedIOException(unreadable);
            }
        };
    }

    /**
     * The current token.
     *
     * @throws UnauthenticatedException the source failed or returned no valid token; nothing may be sent
     */
    static String ask(Supplier<String> source) {
        String token;
        try {
            token = source.get();
        } catch (RuntimeException failed) {
            throw missing(String.valueOf(failed.getMessage()), failed);
        }
        if (token == null || !isToken(token)) {
            throw missing("the source gave one that is empty or has other characters than visible ASCII", null);
        }
        return token;
    }

    private static PausewatchException missing(String why, @Nullable Throwable cause) {
        return Failure.made(Status.UNAUTHENTICATED, "no token: " + why, cause);
    }

    /** The delay until the source is called again, in nanoseconds. */
    static long askAgainAfterNanos(String token, Instant now) {
        OptionalLong end = end(token);
        if (end.isEmpty()) {
            return LONGEST_NANOS;
        }
        long rest = TimeUnit.SECONDS.toNanos(end.getAsLong() - now.getEpochSecond()) / 3 * 2;
        return Math.max(SHORTEST_NANOS, Math.min(rest, LONGEST_NANOS));
    }

    /** The expiry of a JSON web token, in seconds since the epoch; empty: it has none. Its signature is not checked. */
    private static OptionalLong end(String token) {
        String[] parts = token.split("\\.", -1);
        if (parts.length != 3) {
            return OptionalLong.empty();
        }
        try {
            Matcher found = END.matcher(new String(Base64.getUrlDecoder().decode(parts[1]), StandardCharsets.UTF_8));
            return found.find() ? OptionalLong.of(Long.parseLong(found.group(1))) : OptionalLong.empty();
        } catch (IllegalArgumentException noBase64) {
            return OptionalLong.empty();
        }
    }
}
