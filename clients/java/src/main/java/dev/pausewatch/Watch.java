package dev.pausewatch;

import io.grpc.Status;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;

/**
 * Reports the states of a set of threads, across lost connections, until it is closed. Created by {@link Client#watch} and {@link
 * Client#watchAll}.
 *
 * <p>A lost connection, or 30 s without a message (two heartbeats; two and a half, if the server sends their interval), is
 * reported as {@link Watch.Event.Disconnected}. Then the watch reconnects, with a retry delay of 50 to 100 ms at first and 3 to 6
 * s at most. A slow reader receives the latest state of each thread, not every one in between: memory is bounded by the number of
 * threads. With {@link Client#watchAll}, up to 10,000 events are buffered here, and the coordinator keeps the latest state of
 * each further thread.
 *
 * <p>It is safe for concurrent use; each event goes to one reader. A {@code for} loop over it ends when it is closed.
 */
public final class Watch implements Iterable<Watch.Event>, AutoCloseable {
    private final Outbox outbox;
    private final WatchLink link;
    private final Runnable onClose;

    /** One event of a watch. */
    public sealed interface Event {
        /**
         * The state of a thread: the first one, a change, or the first one after a disconnect.
         *
         * @param state the state; with its elicitations if {@link WatchBuilder#includeElicitations()} was called
         * @param gap changes may have been missed before this state, because it is the first of its thread, or the first after a
         *     disconnect
         * @param changed the revision or the epoch differs from the last state reported for the thread; false only after a gap in
         *     which nothing changed
         */
        record State(PauseState state, boolean gap, boolean changed) implements Event {}

        /** The state of every watched thread has been delivered; changes follow. Repeated after every reconnection and after threads were added. */
        record SnapshotComplete() implements Event {}

        /**
         * The states of these threads are unknown until the next state of each is reported. The watch is reconnecting.
         *
         * @param threadIds the disconnected threads; empty with {@link Client#watchAll()}, where it is all of them
         * @param error the cause
         * @param silentFor the time since the last message, if the connection died silently; zero if its end was noticed at once
         */
        record Disconnected(List<String> threadIds, PausewatchException error, Duration silentFor) implements Event {}
    }

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
    public Event next() {
        return take(Nanos.MAX).orElseThrow(() -> new NoSuchElementException("the watch is closed"));
    }

    /**
     * The next event, if it arrives within this time and before the watch is closed. After an interrupt it ends as {@link
     * #next()} does.
     */
    public Optional<Event> next(Duration within) {
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
    public Iterator<Event> iterator() {
        return new Iterator<>() {
            private Optional<Event> next = Optional.empty();

            @Override
            public boolean hasNext() {
                next = next.or(() -> take(Nanos.MAX));
                return next.isPresent();
            }

            @Override
            public Event next() {
                if (!hasNext()) {
                    throw new NoSuchElementException("the watch is closed");
                }
                Event event = next.orElseThrow();
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

    private Optional<Event> take(long nanos) {
        long end = System.nanoTime() + nanos;
        try {
            while (outbox.await(end - System.nanoTime())) {
                Optional<Event> event = outbox.poll();
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
