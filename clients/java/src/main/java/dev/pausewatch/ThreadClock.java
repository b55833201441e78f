package dev.pausewatch;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;

/**
 * One thread as its stopwatches share it: its paused time, its waiters, and the confirmation by the coordinator that precedes an
 * expiry.
 *
 * <p>1. Changes and waiters are handled on the timer's thread. The paused time may be read on any thread: its lock is this
 * object's monitor, which is taken after a stopwatch's.
 *
 * <p>2. Pausing is one short critical section (and stopwatches that also await other threads settle their union). Only a resume,
 * a disconnect and a reconnect wake waiters, and only those that wait for the thread; waiters with a timer are not among them.
 *
 * <p>3. A confirmation counts for a stopwatch only if its request was sent after the stopwatch ran out: an earlier one may have
 * missed an increment that was acknowledged since (G1).
 */
final class ThreadClock {
    /** The minimum time for a confirmation, even if less of the grace is left. */
    private static final long MIN_CONFIRMATION_TIME = TimeUnit.MILLISECONDS.toNanos(250);
    /**
     * If a stopwatch finds later than this that it had run out, the process was stopped, or the link was dead without notice: nobody could be
     * asked before. Then the confirmation has a time of its own, in which a new stream can be opened.
     */
    private static final long LATE = TimeUnit.SECONDS.toNanos(1);

    private static final long LATE_CONFIRMATION_TIME = TimeUnit.SECONDS.toNanos(2);

    private final String threadId;
    private final Timer timer;
    private final long grace;
    private final Confirmer confirmer;
    private final PausedTimeTracker tracker;
    /** Waiters that check again when the thread has changed, and when a confirmation has arrived. */
    private final Set<Runnable> changed = new LinkedHashSet<>();

    private final Set<Runnable> answered = new LinkedHashSet<>();
    /** Stopwatches that also await other threads: they settle at every change, before any check. */
    private final Set<LongConsumer> observers = new CopyOnWriteArraySet<>();

    /** When the pending confirmation was requested. */
    private OptionalLong askedAt = OptionalLong.empty();
    /** When the last confirmation was requested. */
    private OptionalLong confirmedAt = OptionalLong.empty();

    /** Requests confirmations, on the timer's thread. */
    interface Confirmer {
        /** Requests the confirmation of a thread; on a new stream it must be called again. */
        void confirm(String threadId);

        /** Drops the request: the confirmation is not awaited any more. */
        void forget(String threadId);

        /** Whether there is a stream on which a confirmation may come. */
        boolean hasStream();
    }

    /**
     * Whether the thread is paused; and, while disconnected, when an unconfirmed pause stops counting. That time is set for a
     * running thread too, because its paused time is uncertain then.
     */
    record Pause(boolean paused, OptionalLong validUntil) {}

    ThreadClock(String threadId, Timer timer, long grace, Confirmer confirmer) {
        this.threadId = threadId;
        this.timer = timer;
        this.grace = grace;
        this.confirmer = confirmer;
        this.tracker = new PausedTimeTracker(timer.now(), grace);
    }

    /**
     * How long a stopwatch that has run out may wait for a confirmation. The grace is one budget: a pause that could not be
     * confirmed has used some of it, since the stopwatch joined.
     */
    synchronized long graceLeft(long joined) {
        return grace - tracker.unconfirmedPause(joined);
    }

    String threadId() {
        return threadId;
    }

    /** Calls {@code settle} with the time of every change from now on, without a lock. Adding it again does nothing. */
    void observe(LongConsumer settle) {
        observers.add(settle);
    }

    void ignore(LongConsumer settle) {
        observers.remove(settle);
    }

    /** The number of observers. */
    int observers() {
        return observers.size();
    }

    private void settle(long now) {
        observers.forEach(observer -> observer.accept(now));
    }

    /** Calls {@code look} when waiters must check again. */
    void onChange(Runnable look) {
        changed.add(look);
    }

    /** Calls {@code look} when a confirmation has arrived, or its stream is lost. */
    void onAnswer(Runnable look) {
        answered.add(look);
    }

    /** Stops calling {@code look}. */
    void leave(Runnable look) {
        changed.remove(look);
        if (answered.remove(look) && answered.isEmpty()) {
            confirmer.forget(threadId);
        }
    }

    /** The paused time so far. */
    synchronized long pausedTime(long now) {
        return tracker.pausedTime(now);
    }

    synchronized Pause pause(long now) {
        return new Pause(tracker.isPaused(now), tracker.validUntil());
    }

    synchronized boolean isLinked() {
        return tracker.isLinked();
    }

    synchronized PausedTimeTracker.Join join(long now) {
        return tracker.join(now);
    }

    /** Notes that the watch has received nothing for this long. */
    void disconnect(long silentFor) {
        long now = timer.now();
        // Until then the state was exact.
        settle(now - silentFor);
        boolean wake;
        synchronized (this) {
            wake = tracker.disconnect(now, now - silentFor);
        }
        askedAt = OptionalLong.empty();
        if (wake) {
            wake(changed);
        }
        wake(answered);
    }

    /** Applies a state. {@code slept}: how long the machine has slept by now. */
    void apply(PauseState state, long slept) {
        PausedTimeTracker.ObservedState seen = new PausedTimeTracker.ObservedState(
                Version.of(state),
                state.paused(),
                Nanos.of(state.pausedTotal()),
                state.pausedFor().map(Nanos::of).orElse(0L));
        long now;
        boolean wake;
        synchronized (this) {
            now = timer.now();
            wake = tracker.apply(new PausedTimeTracker.LocalTime(now, slept), seen);
        }
        settle(now);
        if (wake) {
            wake(changed);
        }
    }

    /** Notes that the client is closed: from now on the thread counts as running, without confirmations. On any thread. */
    void close() {
        long now = timer.now();
        settle(now);
        synchronized (this) {
            tracker.close(now);
        }
        timer.execute(() -> {
            wake(changed);
            wake(answered);
        });
    }

    /** Whether a confirmation that was requested at {@code since} or later has arrived, or none can be requested any more. */
    synchronized boolean isConfirmed(long since) {
        return tracker.isClosed() || (confirmedAt.isPresent() && confirmedAt.getAsLong() - since >= 0);
    }

    /** Requests a confirmation, now or as soon as the pending one has arrived. */
    void confirm(long since) {
        if (askedAt.isEmpty() || askedAt.getAsLong() - since < 0) {
            confirmer.confirm(threadId);
        }
    }

    /**
     * How long to wait for the confirmation of a stopwatch that ran out at {@code ranOut}: until {@code giveUp}; while there is a
     * stream, for the minimum time at least. As long as nothing is asked, that begins at {@code noticed}, when the stopwatch found
     * that it had run out: a stalled process finds it late, and must ask all the same, if need be on a new stream.
     */
    long confirmationDeadline(long ranOut, long noticed, long giveUp) {
        if (noticed - ranOut > LATE) {
            long least = noticed + LATE_CONFIRMATION_TIME;
            return giveUp - least >= 0 ? giveUp : least;
        }
        if (!confirmer.hasStream()) {
            return giveUp;
        }
        boolean asked = askedAt.isPresent() && askedAt.getAsLong() - ranOut > 0;
        long since = noticed - ranOut > 0 ? noticed : ranOut;
        long least = (asked ? askedAt.getAsLong() : since) + MIN_CONFIRMATION_TIME;
        return giveUp - least >= 0 ? giveUp : least;
    }

    /** A confirmation was requested at {@code at}. */
    void asked(long at) {
        askedAt = OptionalLong.of(at);
    }

    /** The confirmation that was requested at {@code at} has arrived, and its state was applied. */
    void confirmed(long at) {
        askedAt = OptionalLong.empty();
        confirmedAt = OptionalLong.of(at);
        wake(answered);
    }

    private static void wake(Set<Runnable> waiters) {
        // Waiters may be added and removed during their checks.
        List.copyOf(waiters).forEach(Runnable::run);
    }
}
