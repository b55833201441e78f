package dev.pausewatch;

import io.grpc.Status;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Ends the stream of a {@link WatchLink} when its client has moved to another address: after a random delay, so that not all
 * streams of a replica end at once. Everything happens on the timer's thread.
 */
final class StreamMove {
    /** The maximum of this random delay. */
    private static final long MAX_DELAY = TimeUnit.MILLISECONDS.toNanos(500);

    private final Connection connection;
    private final Timer timer;
    private final Runnable moved;
    private @Nullable WatchStream stream;
    /** Whether the stream is about to follow its client. */
    private boolean following;

    private Timer.Alarm alarm = Timer.Alarm.NONE;

    StreamMove(Connection connection, Timer timer) {
        this.connection = connection;
        this.timer = timer;
        this.moved = () -> timer.execute(this::followLater);
    }

    /** From now on this stream follows its client. */
    void begin(WatchStream opened) {
        stream = opened;
        connection.onMove(moved);
        followLater();
    }

    /** Notes that the stream has ended. Returns whether it ended in order to follow its client. */
    boolean end() {
        boolean wasFollowing = following;
        alarm.cancel();
        following = false;
        stream = null;
        return wasFollowing;
    }

    /** The stream has ended, and no other will be opened soon. */
    void stop() {
        end();
        connection.forget(moved);
    }

    private void followLater() {
        WatchStream current = stream;
        if (current == null || following || current.moves() == connection.now().moves()) {
            return;
        }
        following = true;
        alarm = timer.in(
                ThreadLocalRandom.current().nextLong(MAX_DELAY),
                () -> current.fail(Failure.made(Status.UNAVAILABLE, "the client has moved to another address", null)));
    }
}
