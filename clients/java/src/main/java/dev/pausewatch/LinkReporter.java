package dev.pausewatch;

import java.lang.System.Logger.Level;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * Reports the link of one follower to the program, and logs it, from the timer's thread.
 *
 * <p>1. Each change is reported once, in order, on a thread of {@link Callbacks}: a user's code must not block the timer's
 * thread.
 *
 * <p>2. The first loss counts: all threads share one grace. A closed client reports nothing more.
 */
final class LinkReporter {
    private static final System.Logger LOGGER = System.getLogger("dev.pausewatch");

    private final Timer timer;
    private final long grace;
    private final Consumer<Link> onLink;
    private Optional<Link> last = Optional.empty();
    private Timer.Alarm spent = Timer.Alarm.NONE;
    private CompletableFuture<Void> delivered = CompletableFuture.completedFuture(null);
    private volatile boolean closed;

    LinkReporter(Timer timer, long grace, Consumer<Link> onLink) {
        this.timer = timer;
        this.grace = grace;
        this.onLink = onLink;
    }

    void connected() {
        if (is(Link.State.CONNECTED)) {
            return;
        }
        spent.cancel();
        if (last.isPresent()) {
            LOGGER.log(Level.INFO, "connected to the coordinator again");
        }
        become(new Link(Link.State.CONNECTED, Optional.empty(), Optional.empty()));
    }

    void disconnected(PausewatchException error, long silentFor) {
        if (closed || is(Link.State.DISCONNECTED) || is(Link.State.GRACE_SPENT)) {
            return;
        }
        LOGGER.log(
                Level.WARNING,
                "the coordinator is unreachable, deadlines continue with the last known states: {0}",
                error.getMessage());
        Optional<Instant> since = Optional.of(Instant.now().minusNanos(silentFor));
        become(new Link(Link.State.DISCONNECTED, since, Optional.of(error)));
        spent = timer.in(Math.max(0, grace - silentFor), () -> {
            if (!closed) {
                LOGGER.log(
                        Level.WARNING,
                        "the disconnect grace is spent, paused threads count as running: {0}",
                        error.getMessage());
                become(new Link(Link.State.GRACE_SPENT, since, Optional.of(error)));
            }
        });
    }

    /** A thread is not watched; the stream goes on with the others. */
    void refused(PausewatchException error) {
        LOGGER.log(
                Level.WARNING,
                "a thread is not watched, its deadlines run without its pauses: {0}",
                error.getMessage());
    }

    /** From any thread. */
    void close() {
        closed = true;
    }

    private boolean is(Link.State state) {
        return last.isPresent() && last.get().state() == state;
    }

    private void become(Link link) {
        last = Optional.of(link);
        delivered = delivered.thenRunAsync(
                () -> {
                    if (!closed) {
                        deliver(link);
                    }
                },
                Callbacks.EXECUTOR);
    }

    private void deliver(Link link) {
        try {
            onLink.accept(link);
        } catch (RuntimeException thrown) {
            LOGGER.log(Level.WARNING, "the listener for the link has failed", thrown);
        }
    }
}
