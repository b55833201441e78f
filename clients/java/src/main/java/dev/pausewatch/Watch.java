package dev.pausewatch;

import io.grpc.Status;
import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Optional;

/**
 * The states of a set of threads, across lost connections, until it is closed. Made by {@link Client#watch} and {@link Client#watchAll}.
 *
 * <p>A break of the connection, or 30 s of silence (two heartbeats), is told as {@link WatchEvent.Disconnected}; then the watch connects again,
 * after 50 ms at first, after 3 to 6 s at most. A reader that is slow gets the latest state of each thread, not all: memory is bounded by
 * the number of threads; with {@link Client#watchAll}, 10,000 events wait here, and the latest state of each further thread at the coordinator.
 *
 * <p>Any number of threads may use it; each event goes to one of them. A {@code for} loop over it ends when it is closed.
 */
public final class Watch implements Iterable<WatchEvent>, AutoCloseable {
    private final Outbox outbox;
    private final WatchLink link;
    private final Runnable onClose;

    Watch(Outbox outbox, WatchLink link, Runnable onClose) {
        this.outbox = outbox;
        this.link = link;
        this.onClose = onClose;
    }

    /**
     * The next event; waits for it.
     *
     * @throws NoSuchElementException the watch is closed
     * @throws OtherException with status CANCELLED: this thread was interrupted, which it still is; no event is lost
     */
    public WatchEvent next() {
        return take(Nanos.MAX).orElseThrow(() -> new NoSuchElementException("the watch is closed"));
    }

    /** The next event, if it comes within this time and before the watch is closed. Interrupted, it ends as {@link #next()} does. */
    public Optional<WatchEvent> next(Duration within) {
        return take(Nanos.of(within));
    }

    /**
     * Watches one thread more; nothing happens if it is watched already, or all are.
     *
     * @throws InvalidFieldException no thread can have this id
     */
    public void add(String threadId) {
        link.add(ThreadIds.checked(threadId));
    }

    /** Watches one thread less; what was not told of it yet is dropped. Nothing happens if all are watched. */
    public void remove(String threadId) {
        link.remove(threadId);
    }

    /** The events to come. {@code hasNext} waits for the next one, and is false when the watch is closed. */
    @Override
    public Iterator<WatchEvent> iterator() {
        return new Iterator<>() {
            private Optional<WatchEvent> next = Optional.empty();

            @Override
            public boolean hasNext() {
                next = next.or(() -> take(Nanos.MAX));
                return next.isPresent();
            }

            @Override
            public WatchEvent next() {
                if (!hasNext()) {
                    throw new NoSuchElementException("the watch is closed");
                }
                WatchEvent event = next.orElseThrow();
                next = Optional.empty();
                return event;
            }
        };
    }

    /** Ends the watch, and the waiting of those who read it. Calling it again is harmless. */
    @Override
    public void close() {
        outbox.close();
        link.close();
        onClose.run();
    }

    private Optional<WatchEvent> take(long nanos) {
        long end = System.nanoTime() + nanos;
        try {
            while (outbox.await(end - System.nanoTime())) {
                Optional<WatchEvent> event = outbox.poll();
                // Another reader may have been quicker.
                if (event.isPresent()) {
                    return event;
                }
            }
            return Optional.empty();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw Failure.made(Status.CANCELLED, "interrupted while waiting for an event", interrupted);
        }
    }
}
