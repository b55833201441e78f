package dev.pausewatch;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.LongConsumer;

/**
 * A limit on time that does not run while it is paused, by itself or by the threads that it follows.
 *
 * <p>Waiting is a loop of looks: if there is time left, an alarm is set for the next one. Nothing needs to tell it that a pause began: the look
 * after the alarm finds it. Only then, standing still, does it wait to be told.
 *
 * <p>1. It looks on the timer's thread, where threads change too; so nothing changes unnoticed between a look and the waiting that follows, but
 * its own pauses, which call for another look.
 *
 * <p>2. Nothing but a look decides: after any wake-up the state is read again.
 *
 * <p>3. It expires only after the coordinator, asked once more after the time ran out, said that the thread runs (G1), or when it could not be asked
 * for the whole grace. Only its limit on wall time ends it without: no pause and no question extends that. Expired is for ever.
 *
 * <p>Its lock is its monitor, which is taken before its thread's.
 */
final class Stopwatch {
    private final Timer timer;
    private final Runnable onExpired;
    private final long started;
    /** When its limit on wall time is over; empty: it has none. */
    private final OptionalLong wallEnd;

    /** Guarded by this stopwatch, as is what follows. */
    private final Meter meter;

    private final Follows follows;
    /** Which limit ended it, for ever. */
    private Optional<EndedBy> endedBy = Optional.empty();

    private boolean stopped;

    /** On the timer's thread. */
    private Timer.Alarm alarm = Timer.Alarm.NONE;

    private final Runnable look = this::look;
    private final LongConsumer settle = this::settle;

    /** All of one moment, in nanoseconds. */
    record Reading(long wall, long elapsed, boolean paused, Optional<EndedBy> endedBy) {}

    /** What a look finds. */
    private sealed interface Sight {
        record Over() implements Sight {}

        /** The limit on wall time is over. */
        record WallOver() implements Sight {}

        /** A pause of its own: nothing happens by itself. */
        record Still() implements Sight {}

        /** There is time until then; {@code assumed}: those of which what is known is only assumed. */
        record Runs(long until, List<ThreadClock> assumed) implements Sight {}

        /** These are paused; of those that are cut off, that counts until {@code validUntil}, the first of them. */
        record Frozen(List<ThreadClock> paused, OptionalLong validUntil) implements Sight {}

        /** The time ran out at that moment; the coordinator must be asked. */
        record RanOut(long at) implements Sight {}
    }

    /**
     * Runs from now on, under {@code thread}: if that is paused, it starts paused.
     *
     * @param limit in nanoseconds
     * @param maxWall in nanoseconds; empty: none
     * @param onExpired is called once, on the timer's thread
     */
    Stopwatch(Timer timer, ThreadClock thread, long limit, Optional<Long> maxWall, Runnable onExpired) {
        this.timer = timer;
        this.onExpired = onExpired;
        started = timer.now();
        wallEnd = maxWall.map(length -> OptionalLong.of(started + length)).orElse(OptionalLong.empty());
        meter = new Meter(limit, started);
        follows = new Follows(thread, started);
    }

    void start() {
        timer.execute(look);
    }

    /** Opens a pause of its own. */
    synchronized void pause() {
        long now = timer.now();
        follows.used(now);
        meter.pause(now, follows.pausedTime(now));
    }

    /** Ends a pause of its own. */
    synchronized void resume() {
        long now = timer.now();
        follows.used(now);
        if (meter.resume(now, follows.pausedTime(now))) {
            timer.execute(look);
        }
    }

    /** Stands still while that thread is paused too. */
    synchronized void awaitThread(ThreadClock thread) {
        // The look that is to come finds it.
        long now = timer.now();
        follows.settle(now);
        follows.add(thread, now);
        follows.all().forEach(follow -> follow.thread.observe(settle));
    }

    /** As {@link #awaitThread}, for a thread that it awaits already. */
    synchronized void awaitAgain(String threadId) {
        follows.again(threadId);
    }

    /** Ends one {@link #awaitThread}. Says whether that was the last one. */
    synchronized boolean unawaitThread(String threadId) {
        Optional<ThreadClock> gone = follows.remove(threadId, timer.now());
        gone.ifPresent(thread -> thread.ignore(settle));
        timer.execute(() -> {
            gone.ifPresent(this::leave);
            look();
        });
        return gone.isPresent();
    }

    private synchronized void settle(long now) {
        follows.settle(now);
    }

    synchronized boolean isLinked() {
        return follows.isLinked();
    }

    /** Ends before its time. */
    void stop() {
        synchronized (this) {
            stopped = true;
            follows.all().forEach(follow -> follow.thread.ignore(settle));
        }
        timer.execute(this::disarm);
    }

    synchronized Reading read() {
        long now = timer.now();
        long pausedTime = follows.pausedTime(now);
        boolean paused = meter.isPaused() || follows.isPaused(now);
        return new Reading(now - started, meter.elapsed(now, pausedTime), paused, endedBy);
    }

    private void disarm() {
        alarm.cancel();
        threads().forEach(this::leave);
    }

    private void leave(ThreadClock thread) {
        thread.leave(look);
    }

    private synchronized List<ThreadClock> threads() {
        return follows.all().stream().map(follow -> follow.thread).toList();
    }

    private void look() {
        disarm();
        Sight sight = sight();
        if (sight instanceof Sight.WallOver) {
            expire(EndedBy.MAX_WALL);
        } else if (sight instanceof Sight.Still) {
            wakeAt(OptionalLong.empty());
        } else if (sight instanceof Sight.Runs runs) {
            wakeAt(OptionalLong.of(runs.until));
            runs.assumed.forEach(thread -> thread.onChange(look));
        } else if (sight instanceof Sight.Frozen frozen) {
            frozen.paused.forEach(thread -> thread.onChange(look));
            wakeAt(frozen.validUntil);
        } else if (sight instanceof Sight.RanOut ranOut) {
            confirm(ranOut.at);
        }
    }

    private synchronized Sight sight() {
        if (endedBy.isPresent() || stopped) {
            return new Sight.Over();
        }
        long now = timer.now();
        if (isWallOver(now)) {
            return new Sight.WallOver();
        }
        long pausedTime = follows.pausedTime(now);
        if (meter.isPaused()) {
            return new Sight.Still();
        }
        List<ThreadClock> paused = new ArrayList<>();
        List<ThreadClock> assumed = new ArrayList<>();
        OptionalLong validUntil = OptionalLong.empty();
        for (ThreadClock thread : threads()) {
            ThreadClock.Pause pause = thread.pause(now);
            if (pause.validUntil().isPresent()) {
                assumed.add(thread);
            }
            if (pause.paused()) {
                paused.add(thread);
                validUntil = earlier(validUntil, pause.validUntil());
            }
        }
        if (!paused.isEmpty()) {
            return new Sight.Frozen(paused, validUntil);
        }
        long left = meter.left(now, pausedTime);
        return left > 0 ? new Sight.Runs(now + left, assumed) : new Sight.RanOut(now + left);
    }

    /** Sees to it that the coordinator is asked about every thread, and expires when that is settled. */
    private void confirm(long ranOut) {
        ThreadClock waitedFor = null;
        for (ThreadClock thread : threads()) {
            if (!thread.isConfirmed(ranOut)) {
                thread.onAnswer(look);
                thread.confirm(ranOut);
                waitedFor = thread;
            }
        }
        if (waitedFor == null) {
            expire(EndedBy.LIMIT);
            return;
        }
        long until = waitedFor.patience(ranOut, ranOut + graceLeft());
        if (timer.now() - until >= 0) {
            expire(EndedBy.LIMIT);
        } else {
            wakeAt(OptionalLong.of(until));
        }
    }

    /** The grace is one budget, whichever thread has used it. */
    private synchronized long graceLeft() {
        long left = Nanos.MAX;
        for (Follows.Follow follow : follows.all()) {
            left = Math.min(left, follow.thread.graceLeft(follow.joinedAt));
        }
        return left;
    }

    /** Expires, unless it was stopped; by the limit on unpaused time not if a pause of its own has come between. */
    private void expire(EndedBy by) {
        synchronized (this) {
            if (stopped) {
                return;
            }
            if (by == EndedBy.LIMIT && meter.isPaused()) {
                wakeAt(OptionalLong.empty());
                return;
            }
            endedBy = Optional.of(by);
        }
        onExpired.run();
    }

    private boolean isWallOver(long now) {
        return wallEnd.isPresent() && now - wallEnd.getAsLong() >= 0;
    }

    /** Looks at that moment (empty: never); at the end of the limit on wall time it looks at the latest. */
    private void wakeAt(OptionalLong moment) {
        long now = timer.now();
        if (wallEnd.isPresent() && (moment.isEmpty() || moment.getAsLong() - wallEnd.getAsLong() >= 0)) {
            alarm = timer.in(Math.max(0, wallEnd.getAsLong() - now), look);
        } else if (moment.isPresent()) {
            alarm = timer.in(Math.max(0, moment.getAsLong() - now), look);
        }
    }

    private static OptionalLong earlier(OptionalLong one, OptionalLong other) {
        if (one.isEmpty() || other.isEmpty()) {
            return one.isEmpty() ? other : one;
        }
        return one.getAsLong() - other.getAsLong() <= 0 ? one : other;
    }
}
