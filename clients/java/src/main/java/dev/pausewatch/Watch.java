package dev.pausewatch;

import io.grpc.Status;
import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Optional;

/**
 * Reports the states of a set of threads, across lost connections, until it is closed. Created by {@link Client#watch} and {@link
 * Client#watchAll}.
 *
 * <p>A lost connection, or 30 s without a message (two heartbeats; two and a half, if the server sends their interval), is
 * reported as {@link WatchEvent.Disconnected}. Then the watch reconnects, with a retry delay of 50 to 100 ms at first and 3 to 6
 * s at most. A slow reader receives the latest state of each thread, not every one in between: memory is bounded by the number of
 * threads. With {@link Client#watchAll}, up to 10,000 events are buffered here, and the coordinator keeps the latest state of
 * each further thread.
 *
 * <p>It is safe for concurrent use; each event goes to one reader. A {@code for} loop over it ends when it is closed.
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
     * Waits for the next event.
     *
     * @throws NoSuchElementException the watch is closed
     * @throws OtherException with status CANCELLED: this thread was interrupted, and still is; no event is lost
     */
    public WatchEvent next() {
        return take(Nanos.MAX).orElseThrow(() -> new NoSuchElementException("the watch is closed"));
    }

    /**
     * The next event, if it arrives within this time and before the watch is closed. After an interrupt it ends as {@link
     * #next()} does.
     */
    public Optional<WatchEvent> next(Duration within) {
        return take(Nanos.of(within));
    }

    /**
     * Adds a thread. Does nothing if the thread, or every thread, is already watched.
     *
     * @throws InvalidFieldException no thread can have this id
     */
    public void add(String threadId) {
        link.add(ThreadIds.checked(threadId));
    }

    /** Removes a thread; its undelivered events are dropped. Does nothing if all threads are watched. */
    public void remove(String threadId) {
        link.remove(threadId);
    }

    /** Iterates over the events. {@code hasNext} waits for the next one, and returns false when the watch is closed. */
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

    /** Closes the watch; waiting readers return. Calling it again is harmless. */
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
                // Another reader may have taken it.
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
