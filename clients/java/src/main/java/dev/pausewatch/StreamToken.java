package dev.pausewatch;

import java.time.Instant;
import java.util.Optional;

/**
 * The token of a {@link WatchLink}'s stream, which is replaced in place before it expires. Everything happens on the timer's
 * thread.
 */
final class StreamToken {
    private static final System.Logger LOG = System.getLogger(StreamToken.class.getName());

    private final Connection connection;
    private final Timer timer;
    private final Runnable hasNew;

    /** The next token to send on the stream. */
    private Optional<String> next = Optional.empty();

    private Timer.Alarm renewal = Timer.Alarm.NONE;

    /** {@code hasNew}: called when there is a token to send on the stream. */
    StreamToken(Connection connection, Timer timer, Runnable hasNew) {
        this.connection = connection;
        this.timer = timer;
        this.hasNew = hasNew;
    }

    /** The token to open a stream with; from now on it is renewed. Throws if there should be one, and none can be had. */
    Optional<String> begin() {
        end();
        Optional<String> token = connection.nextToken();
        token.ifPresent(this::renewLater);
        return token;
    }

    /** The stream has ended. */
    void end() {
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
        String current;
        try {
            current = connection.nextToken().orElse(token);
        } catch (PausewatchException noToken) {
            LOG.log(System.Logger.Level.WARNING, "the token cannot be renewed", noToken);
            renewal = timer.in(Tokens.SHORTEST_NANOS, () -> renew(token));
            return;
        }
        renewLater(current);
        if (!current.equals(token)) {
            next = Optional.of(current);
            hasNew.run();
        }
    }
}
