package dev.pausewatch;

import java.time.Duration;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * A deadline that is paused while its thread is paused, or while it is paused itself. Created by {@link Client#deadline}; it
 * starts then.
 *
 * <pre>{@code
 * try (PausableDeadline deadline = client.deadline("thread-1", Duration.ofSeconds(10))) {
 *     deadline.orTimeout(command).join(); // CompletionException with a TimeoutException after 10 s of unpaused time
 * }
 * }</pre>
 *
 * <p>It is charged wall time, minus the paused time of its thread, minus its own pauses (overlapping pauses count once). It
 * expires only after the coordinator, asked after the time ran out, has confirmed that the thread runs. Only the limit on wall
 * time ({@link DeadlineOptions#maxWall()}) needs no confirmation, and no pause extends it. While disconnected, a thread keeps its
 * last state, a paused one for at most the disconnect grace; and a deadline that runs out waits up to the grace for a reconnect.
 * After the reconnect, pauses that began or ended meanwhile are credited exactly. Time is {@link System#nanoTime()}: a sleep of
 * the machine is not charged where that clock stops during it (Linux, macOS).
 *
 * <p>It uses no thread of its own, and is safe for concurrent use.
 */
public final class PausableDeadline implements AutoCloseable {
    private final Follower follower;
    private final String threadId;
    private final Duration limit;
    private final Optional<Duration> maxWall;
    private final Consumer<PausableDeadline> onEnd;
    private final Stopwatch stopwatch;
    /** Its own thread, and each that it awaits; guarded by itself. */
    private final Set<String> entered = new HashSet<>();
    /** Whether it has left these threads, because it has ended; guarded by {@link #entered}. */
    private boolean left;

    private final CompletableFuture<Void> expired = new CompletableFuture<>();
    private final AtomicBoolean closed = new AtomicBoolean();

    /**
     * A reading of a {@link PausableDeadline} at one moment.
     *
     * @param wall the time since its start
     * @param elapsed the part of it that was charged; it never decreases: when a reconnect reveals a pause that was charged
     *     meanwhile, it stands still for as long
     * @param remaining the limit minus {@code elapsed}, at least zero; zero does not mean expired: the coordinator may have to
     *     confirm it first
     * @param paused whether a pause of the deadline, of its thread or of an awaited thread stops it
     * @param expired whether it has expired, which is final
     * @param endedBy the limit that ended it, once it has expired
     * @param linked whether the states of its thread and of the awaited threads are known and the connection is up
     */
    public record Reading(
            Duration wall,
            Duration elapsed,
            Duration remaining,
            boolean paused,
            boolean expired,
            Optional<EndedBy> endedBy,
            boolean linked) {}

    /** A pause of a deadline, until it is closed. */
    @FunctionalInterface
    public interface Pause extends AutoCloseable {
        /** Ends the pause. Calling it again is harmless. */
        @Override
        void close();
    }

    /** A wait of a deadline for another thread, until it is closed. */
    @FunctionalInterface
    public interface Wait extends AutoCloseable {
        /** Ends the wait. Calling it again is harmless. */
        @Override
        void close();
    }

    PausableDeadline(
            Timer timer,
            Follower follower,
            String threadId,
            Duration limit,
            Optional<Duration> maxWall,
            Consumer<PausableDeadline> onEnd) {
        this.follower = follower;
        this.threadId = threadId;
        this.limit = limit;
        this.maxWall = maxWall;
        this.onEnd = onEnd;
        entered.add(threadId);
        stopwatch =
                new Stopwatch(timer, follower.enter(threadId), Nanos.of(limit), maxWall.map(Nanos::of), this::complete);
        stopwatch.start();
    }

    /** The thread that it follows. */
    public String threadId() {
        return threadId;
    }

    /** Its limit on unpaused time. */
    public Duration limit() {
        return limit;
    }

    /**
     * Completes when it has expired; with a {@link CancellationException} if it was closed before. The future completes on a
     * thread of this library, where code may block. Each call returns its own future.
     */
    public CompletableFuture<Void> expired() {
        return expired.copy();
    }

    /**
     * Completes {@code future} with a {@link TimeoutException} if this deadline expires first, as {@link CompletableFuture#orTimeout} does.
     *
     * @return {@code future}
     */
    public <T> CompletableFuture<T> orTimeout(CompletableFuture<T> future) {
        CompletableFuture<Void> timeout = expired();
        timeout.thenRun(() -> future.completeExceptionally(new TimeoutException(limitInWords())));
        // A completed future must not be kept in memory until the deadline ends.
        future.whenComplete((result, thrown) -> timeout.cancel(false));
        return future;
    }

    /**
     * Runs {@code work} on this thread, and interrupts it when this deadline expires. Work that ignores interrupts, such as
     * waiting for a lock or most of {@code java.io}, continues, and its result is returned.
     *
     * @return what {@code work} returns
     * @throws TimeoutException {@code work} failed after this deadline interrupted it; its exception is the cause
     * @throws Exception what {@code work} throws otherwise
     */
    public <T> T call(Callable<T> work) throws Exception {
        Thread caller = Thread.currentThread();
        // Guarded by itself: an interrupt must not hit what comes after the work.
        AtomicBoolean interrupted = new AtomicBoolean();
        AtomicBoolean over = new AtomicBoolean();
        CompletableFuture<Void> timeout = expired();
        timeout.thenRun(() -> {
            synchronized (over) {
                if (!over.get()) {
                    interrupted.set(true);
                    caller.interrupt();
                }
            }
        });
        Exception failed;
        try {
            return work.call();
        } catch (Exception thrown) {
            failed = thrown;
        } finally {
            synchronized (over) {
                over.set(true);
            }
            timeout.cancel(false);
            if (interrupted.get()) {
                // Clears the interrupt of this deadline.
                Thread.interrupted();
            }
        }
        if (interrupted.get()) {
            TimeoutException late = new TimeoutException(limitInWords());
            late.initCause(failed);
            throw late;
        }
        throw failed;
    }

    private String limitInWords() {
        return endedBy().equals(Optional.of(EndedBy.MAX_WALL))
                ? "no result within " + Nanos.text(maxWall.orElseThrow()) + " of wall time"
                : "no result within " + Nanos.text(limit) + " of unpaused time";
    }

    /** Pauses the deadline until the pause is closed. Pauses nest: it runs again when the last one ends. */
    public Pause pause() {
        stopwatch.pause();
        AtomicBoolean open = new AtomicBoolean(true);
        return () -> {
            if (open.compareAndSet(true, false)) {
                stopwatch.resume();
            }
        };
    }

    /**
     * Pauses the deadline while another thread is paused too, until the wait is closed. Use it for work that waits for a
     * sub-agent. Time in which several threads are paused counts once. The same thread may be awaited several times: it counts
     * until the last of these waits ends. The threads that the awaited thread itself waits for do not count.
     *
     * @throws InvalidFieldException no thread can have this id, or it is the deadline's own thread
     */
    public Wait awaitThread(String threadId) {
        ThreadIds.checked(threadId);
        if (threadId.equals(this.threadId)) {
            throw Failure.invalidField(
                    "thread_id", "is \"" + threadId + "\", the deadline's own thread; allowed: another thread");
        }
        synchronized (entered) {
            if (left) {
                return () -> {};
            }
            if (entered.add(threadId)) {
                stopwatch.awaitThread(follower.enter(threadId));
            } else {
                stopwatch.awaitAgain(threadId);
            }
        }
        AtomicBoolean open = new AtomicBoolean(true);
        return () -> {
            if (open.compareAndSet(true, false)) {
                unawait(threadId);
            }
        };
    }

    private void unawait(String threadId) {
        synchronized (entered) {
            if (!left && stopwatch.unawaitThread(threadId)) {
                entered.remove(threadId);
                follower.leave(threadId);
            }
        }
    }

    /**
     * Pauses the deadline until {@code work} completes.
     *
     * @return {@code work}
     */
    public <T> CompletionStage<T> pauseFor(CompletionStage<T> work) {
        Pause pause = pause();
        work.whenComplete((result, thrown) -> pause.close());
        return work;
    }

    /** The current reading. After the expiry, and after {@link #close()}, it does not change. */
    public Reading read() {
        Stopwatch.Reading now = stopwatch.read();
        Duration elapsed = Duration.ofNanos(now.elapsed());
        Duration remaining = elapsed.compareTo(limit) < 0 ? limit.minus(elapsed) : Duration.ZERO;
        return new Reading(
                Duration.ofNanos(now.wall()),
                elapsed,
                remaining,
                now.paused(),
                now.endedBy().isPresent(),
                now.endedBy(),
                now.linked());
    }

    /** The unpaused time so far. */
    public Duration elapsed() {
        return read().elapsed();
    }

    /** The limit minus {@link #elapsed()}, at least zero. */
    public Duration remaining() {
        return read().remaining();
    }

    /** Whether it is paused, by a pause of its own, of its thread or of an awaited thread. */
    public boolean isPaused() {
        return read().paused();
    }

    /** Whether it has expired. */
    public boolean isExpired() {
        return read().expired();
    }

    /** The limit that ended it; empty: it runs, or was closed. */
    public Optional<EndedBy> endedBy() {
        return read().endedBy();
    }

    /** Closes it: it does not expire any more, and its reading does not change any more. Calling it again is harmless. */
    @Override
    public void close() {
        synchronized (entered) {
            if (!closed.compareAndSet(false, true)) {
                return;
            }
            stopwatch.stop();
            leave();
        }
        onEnd.accept(this);
        expired.cancel(false);
    }

    private void complete() {
        // User code must not run on the timer's thread.
        expired.completeAsync(() -> null, Callbacks.EXECUTOR);
        synchronized (entered) {
            leave();
        }
        onEnd.accept(this);
    }

    /** Leaves its threads, which need not be followed for this deadline any more. */
    private void leave() {
        if (!left) {
            left = true;
            entered.forEach(follower::leave);
        }
    }
}
