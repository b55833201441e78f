package dev.pausewatch;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;

/**
 * One thread as its stopwatches share it: its paused time, who waits for a change of it, and the question to the coordinator that comes before
 * an expiry.
 *
 * <p>1. What changes it, and who waits for that, is on the timer's thread. Its paused time may be read on any: its lock is its monitor, and is taken
 * after a stopwatch's.
 *
 * <p>2. Pausing is one short critical section (and the stopwatches that await other threads too settle their union). Only a resume, a break and
 * its end wake the waiters, and only those who wait for the thread; who waits for a timer is not among them.
 *
 * <p>3. An answer counts for a stopwatch only if the question was sent after its time ran out: an earlier one may have missed an increment that
 * was acknowledged since (G1).
 */
final class ThreadClock {
    /** However little of the grace is left, a question gets this much time. */
    private static final long SHORTEST_ASK = TimeUnit.MILLISECONDS.toNanos(250);

    private final String threadId;
    private final Timer timer;
    private final long grace;
    private final Confirmer confirmer;
    private final PausedTimeTracker tracker;
    /** Those who are to look again when the thread has changed, and when a question was answered. */
    private final Set<Runnable> changed = new LinkedHashSet<>();

    private final Set<Runnable> answered = new LinkedHashSet<>();
    /** Those that await other threads too: they settle at every change, before anybody looks. */
    private final Set<LongConsumer> observers = new CopyOnWriteArraySet<>();

    /** When the question under way was sent. */
    private OptionalLong askedAt = OptionalLong.empty();
    /** When the last one that was answered was sent. */
    private OptionalLong confirmedAt = OptionalLong.empty();

    /** Asks the coordinator, on the timer's thread. */
    interface Confirmer {
        /** Asks about a thread; again on each new stream only if this is called again. */
        void confirm(String threadId);

        /** Nobody waits for that any more. */
        void forget(String threadId);

        /** Whether there is a stream on which an answer may come. */
        boolean hasStream();
    }

    /**
     * Whether the thread is paused, and until when that counts if it cannot be confirmed: given for a running thread too, its credit is not
     * certain then.
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
     * How long a stopwatch that has run out may wait for an answer. The grace is one budget: a pause that could not be confirmed has used some of it, since
     * the stopwatch joined.
     */
    synchronized long graceLeft(long joined) {
        return grace - tracker.unconfirmedPause(joined);
    }

    String threadId() {
        return threadId;
    }

    /** {@code settle} is called with the moment of every change from now on, without a lock. Again does nothing. */
    void observe(LongConsumer settle) {
        observers.add(settle);
    }

    void ignore(LongConsumer settle) {
        observers.remove(settle);
    }

    private void settle(long now) {
        observers.forEach(observer -> observer.accept(now));
    }

    /** Calls {@code look} when waiters must look again. */
    void onChange(Runnable look) {
        changed.add(look);
    }

    /** Calls {@code look} when a question was answered, or its stream is lost. */
    void onAnswer(Runnable look) {
        answered.add(look);
    }

    /** Calls {@code look} no more. */
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

    /** The watch has not been heard any more for so long. */
    void disconnect(long silentFor) {
        long now = timer.now();
        // Until then it was exact.
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

    /** Takes a state; {@code slept}: how long the machine has slept by now. */
    void apply(PauseState state, long slept) {
        PausedTimeTracker.Seen seen =
                new PausedTimeTracker.Seen(Version.of(state), state.paused(), Nanos.of(state.pausedTotal()));
        long now;
        boolean wake;
        synchronized (this) {
            now = timer.now();
            wake = tracker.apply(new PausedTimeTracker.Now(now, slept), seen);
        }
        settle(now);
        if (wake) {
            wake(changed);
        }
    }

    /** The client is closed: from now on the thread counts as running, and nobody is asked about it. On any thread. */
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

    /** Whether the coordinator has answered a question that was sent at {@code since} or later, or cannot be asked any more. */
    synchronized boolean isConfirmed(long since) {
        return tracker.isClosed() || (confirmedAt.isPresent() && confirmedAt.getAsLong() - since >= 0);
    }

    /** Sees to it that the coordinator is asked, now or as soon as the question under way is answered. */
    void confirm(long since) {
        if (askedAt.isEmpty() || askedAt.getAsLong() - since < 0) {
            confirmer.confirm(threadId);
        }
    }

    /**
     * Until when to wait for the answer about a time that was over at {@code ranOut}: as long as {@code giveUp}; while there is a stream, a question
     * gets its least time.
     */
    long patience(long ranOut, long giveUp) {
        if (!confirmer.hasStream()) {
            return giveUp;
        }
        boolean asked = askedAt.isPresent() && askedAt.getAsLong() - ranOut > 0;
        long least = (asked ? askedAt.getAsLong() : ranOut) + SHORTEST_ASK;
        return giveUp - least >= 0 ? giveUp : least;
    }

    /** A question was sent. */
    void asked(long at) {
        askedAt = OptionalLong.of(at);
    }

    /** The question that was sent at that moment is answered, and its state was applied. */
    void confirmed(long at) {
        askedAt = OptionalLong.empty();
        confirmedAt = OptionalLong.of(at);
        wake(answered);
    }

    private static void wake(Set<Runnable> waiters) {
        // They come and go while they look.
        List.copyOf(waiters).forEach(Runnable::run);
    }
}
