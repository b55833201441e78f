package dev.pausewatch;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.function.Function;
import java.util.function.LongConsumer;

/**
 * One thread as its stopwatches share it: its paused time, who waits for a change of it, and the question to the coordinator that comes before
 * an expiry.
 *
 * <p>1. What changes it, and who waits for that, is on the timer's thread. Its paused time may be read on any: its lock is its monitor, and is taken
 * after a stopwatch's.
 *
 * <p>2. Pausing is one short critical section (and the stopwatches that await other threads too settle their union). Only a resume, a break and its end wake the waiters, and only those who wait for the thread; who waits
 * for a timer is not among them.
 *
 * <p>3. At most one call is in flight at a time. An answer counts for a stopwatch only if the question began after its time ran out: an
 * earlier one may have missed an increment that was acknowledged since (G1).
 */
final class ThreadClock {
    private static final System.Logger LOG = System.getLogger(ThreadClock.class.getName());

    private final String threadId;
    private final Timer timer;
    private final long grace;
    private final Function<String, CompletableFuture<PauseState>> get;
    private final PausedTimeTracker tracker;
    private final Waiters changed = new Waiters();
    private final Waiters answered = new Waiters();
    /** Those that await other threads too: they settle at every change, before anybody looks. */
    private final Set<LongConsumer> observers = new CopyOnWriteArraySet<>();

    /** When the question under way began. */
    private OptionalLong underWay = OptionalLong.empty();
    /** The last one that is over. */
    private Optional<Over> over = Optional.empty();

    private record Over(long began, boolean answered) {}

    /** What is known about a question that began at some moment or later. */
    sealed interface Asked {
        record Answered() implements Asked {}

        record Failed() implements Asked {}

        /** It is not over; {@code failed}: one before it failed. */
        record UnderWay(long began, boolean failed) implements Asked {}

        /** None has begun yet. */
        record NotYet() implements Asked {}
    }

    /** Those who are to look again. */
    static final class Waiters {
        private final Set<Runnable> waiting = new LinkedHashSet<>();

        void add(Runnable waiter) {
            waiting.add(waiter);
        }

        void remove(Runnable waiter) {
            waiting.remove(waiter);
        }

        private void wake() {
            // They come and go while they look.
            List.copyOf(waiting).forEach(Runnable::run);
        }
    }

    /**
     * Whether the thread is paused, and until when that counts if it cannot be confirmed: given for a running thread too, its credit is not
     * certain then.
     */
    record Pause(boolean paused, OptionalLong validUntil) {}

    ThreadClock(String threadId, Timer timer, long grace, Function<String, CompletableFuture<PauseState>> get) {
        this.threadId = threadId;
        this.timer = timer;
        this.grace = grace;
        this.get = get;
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

    /** Told when waiters must look again. */
    Waiters changed() {
        return changed;
    }

    /** Told when a question was answered, or failed. */
    Waiters answered() {
        return answered;
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
        if (wake) {
            changed.wake();
        }
    }

    /** Takes a state. */
    void apply(PauseState state, PausedTimeTracker.Via via) {
        PausedTimeTracker.Seen seen =
                new PausedTimeTracker.Seen(Version.of(state), state.paused(), Nanos.of(state.pausedTotal()));
        long slept = Sleep.slept();
        long now;
        boolean wake;
        synchronized (this) {
            now = timer.now();
            wake = tracker.apply(new PausedTimeTracker.Now(now, slept), seen, via);
        }
        settle(now);
        if (wake) {
            changed.wake();
        }
    }

    /** What became of a question that began at {@code since} or later. */
    Asked asked(long since) {
        Optional<Over> late = over.filter(last -> last.began - since >= 0);
        if (late.isPresent() && late.get().answered) {
            return new Asked.Answered();
        }
        if (underWay.isPresent() && underWay.getAsLong() - since >= 0) {
            return new Asked.UnderWay(underWay.getAsLong(), late.isPresent());
        }
        return late.isPresent() ? new Asked.Failed() : new Asked.NotYet();
    }

    /** Asks the coordinator, unless a question is under way; for whom that one began too early asks again when it is over. */
    void ask() {
        if (underWay.isPresent()) {
            return;
        }
        long began = timer.now();
        underWay = OptionalLong.of(began);
        PausedTimeTracker.Via via;
        synchronized (this) {
            via = new PausedTimeTracker.Via.Ask(tracker.version());
        }
        get.apply(threadId).whenCompleteAsync((state, thrown) -> questionOver(began, via, state, thrown), timer);
    }

    private void questionOver(long began, PausedTimeTracker.Via via, PauseState state, Throwable thrown) {
        if (thrown == null) {
            apply(state, via);
        } else {
            LOG.log(System.Logger.Level.DEBUG, "could not ask for a thread before an expiry", thrown);
        }
        over = Optional.of(new Over(began, thrown == null));
        underWay = OptionalLong.empty();
        answered.wake();
    }
}
