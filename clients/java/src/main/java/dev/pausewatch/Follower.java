package dev.pausewatch;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * Which threads are followed for stopwatches, and the watch that feeds their clocks.
 *
 * <p>1. One watch follows all threads. A registration tells it at most that there is a new thread.
 *
 * <p>2. A thread is followed for a while after its last registration: the next command of the thread starts with exact knowledge and costs the
 * coordinator nothing.
 *
 * <p>Its lock is its monitor, which is never held with another one.
 */
final class Follower {
    /** How long a thread without stopwatches is still followed. */
    private static final long LINGER_NANOS = TimeUnit.SECONDS.toNanos(30);

    private final Timer timer;
    private final long grace;
    private final Function<String, CompletableFuture<PauseState>> get;
    private final Outbox events;
    private final WatchSet watch;
    private final Map<String, Followed> threads = new HashMap<>();

    private static final class Followed {
        final ThreadClock clock;
        int registered;
        Timer.Alarm forgetting = Timer.Alarm.NONE;

        Followed(ThreadClock clock) {
            this.clock = clock;
        }
    }

    /**
     * @param get reads one thread
     * @param events where {@code watch} puts what it hears
     */
    Follower(
            Timer timer,
            long grace,
            Function<String, CompletableFuture<PauseState>> get,
            Outbox events,
            WatchSet watch) {
        this.timer = timer;
        this.grace = grace;
        this.get = get;
        this.events = events;
        this.watch = watch;
        events.onReady(this::take);
    }

    /** The clock of a thread, which is followed until {@link #leave}. */
    synchronized ThreadClock enter(String threadId) {
        Followed thread = threads.get(threadId);
        if (thread == null) {
            thread = new Followed(new ThreadClock(threadId, timer, grace, get));
            threads.put(threadId, thread);
            // Under the lock, so that it is in order with what is done about an idle one.
            watch.add(threadId);
        }
        thread.registered++;
        thread.forgetting.cancel();
        return thread.clock;
    }

    synchronized void leave(String threadId) {
        Followed thread = threads.get(threadId);
        thread.registered--;
        if (thread.registered == 0) {
            thread.forgetting = timer.in(LINGER_NANOS, () -> forget(threadId));
        }
    }

    private synchronized void forget(String threadId) {
        Followed thread = threads.get(threadId);
        if (thread != null && thread.registered == 0) {
            threads.remove(threadId);
            watch.remove(threadId);
        }
    }

    private synchronized Optional<ThreadClock> clock(String threadId) {
        return Optional.ofNullable(threads.get(threadId)).map(thread -> thread.clock);
    }

    private void take() {
        for (Optional<WatchEvent> event = events.poll(); event.isPresent(); event = events.poll()) {
            take(event.get());
        }
    }

    private void take(WatchEvent event) {
        if (event instanceof WatchEvent.State update) {
            PausedTimeTracker.Via via = new PausedTimeTracker.Via.Watch(update.gap());
            clock(update.state().threadId()).ifPresent(clock -> clock.apply(update.state(), via));
        } else if (event instanceof WatchEvent.Disconnected disconnected) {
            long silentFor = Nanos.of(disconnected.silentFor());
            disconnected
                    .threadIds()
                    .forEach(threadId -> clock(threadId).ifPresent(clock -> clock.disconnect(silentFor)));
        }
    }
}
