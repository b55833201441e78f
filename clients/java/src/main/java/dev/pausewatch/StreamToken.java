package dev.pausewatch;

import java.time.Instant;
import java.util.Optional;

/**
 * The token of a {@link WatchLink}'s stream, which is replaced in place before it expires. Everything happens on the timer's
 * thread.
 */
final class StreamToken {
    private final Connection connection;
    private final Timer timer;
    private final Runnable hasNew;

    /** The next token to send on the stream. */
    private Optional<String> next = Optional.empty();

    private Timer.Alarm renewal = Timer.Alarm.NONE;
    private int streams;

    /** {@code hasNew}: called when there is a token to send on the stream. */
    StreamToken(Connection connection, Timer timer, Runnable hasNew) {
        this.connection = connection;
        this.timer = timer;
        this.hasNew = hasNew;
    }

    /** A stream is opened with it; from now on it is renewed. */
    void begin(Optional<String> token) {
        end();
        token.ifPresent(this::renewLater);
    }

    /** The stream has ended. */
    void end() {
        streams++;
        renewal.cancel();
        next = Optional.empty();
    }

    /** The token that replaces the one of the stream, once; empty: that is still the current one. */
    Optional<String> takeNew() {
        Optional<String> taken = next;
        next = Optional.empty();
        return taken;
    }

    private void renewLater(String token) {
        renewal = timer.in(Tokens.askAgainAfterNanos(token, Instant.now()), () -> renew(token));
    }

    private void renew(String token) {
        int stream = streams;
        connection
                .askToken()
                .whenCompleteAsync(
                        (current, noToken) -> {
                            if (stream != streams) {
                                return;
                            }
                            if (noToken != null) {
                                connection.tokenFailed(noToken);
                                renewal = timer.in(Tokens.SHORTEST_NANOS, () -> renew(token));
                                return;
                            }
                            renewLater(current.orElseThrow());
                            if (!current.equals(Optional.of(token))) {
                                next = current;
                                hasNew.run();
                            }
                        },
                        timer);
    }
}
