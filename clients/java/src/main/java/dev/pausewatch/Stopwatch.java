package dev.pausewatch;

import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;

/**
 * A limit on time that does not run while it is paused, by itself or by the thread that it follows.
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
 * for the whole grace. Expired is for ever.
 *
 * <p>Its lock is its monitor, which is taken before its thread's.
 */
final class Stopwatch {
    /** Between two questions to a coordinator that cannot be asked; up to twice as long, at random. */
    private static final long ASK_AGAIN = TimeUnit.MILLISECONDS.toNanos(500);
    /** However little of the grace is left, a question gets this much time. */
    private static final long SHORTEST_ASK = TimeUnit.MILLISECONDS.toNanos(250);

    private final Timer timer;
    private final ThreadClock thread;
    private final Runnable onExpired;
    private final long started;

    /** Guarded by this stopwatch, as is what follows. */
    private final Meter meter;
    /** Where it finds its place; empty: it has. */
    private Optional<PausedTimeTracker.Joined> joined;

    private boolean expired;
    private boolean stopped;

    /** On the timer's thread. */
    private Timer.Alarm alarm = Timer.Alarm.NONE;

    private final Runnable look = this::look;

    /** All of one moment, in nanoseconds. */
    record Reading(long wall, long elapsed, boolean paused, boolean expired) {}

    /** What a look finds. */
    private sealed interface Sight {
        record Over() implements Sight {}

        /** A pause of its own: nothing happens by itself. */
        record Still() implements Sight {}

        /** There is time until then; {@code perhaps}: what is known of the thread is only assumed. */
        record Runs(long until, boolean perhaps) implements Sight {}

        /** The thread is paused; cut off, that counts until {@code validUntil}. */
        record Frozen(OptionalLong validUntil) implements Sight {}

        /** The time ran out at that moment; the coordinator must be asked. */
        record RanOut(long at) implements Sight {}
    }

    /**
     * Runs from now on, under {@code thread}: if that is paused, it starts paused.
     *
     * @param limit in nanoseconds
     * @param onExpired is called once, on the timer's thread
     */
    Stopwatch(Timer timer, ThreadClock thread, long limit, Runnable onExpired) {
        this.timer = timer;
        this.thread = thread;
        this.onExpired = onExpired;
        started = timer.now();
        meter = new Meter(limit, started);
        PausedTimeTracker.Join join = thread.join(started);
        meter.follow(started, 0, join.pausedTime());
        joined = Optional.of(join.joined());
    }

    void start() {
        timer.execute(look);
    }

    /** Opens a pause of its own. */
    synchronized void pause() {
        long now = timer.now();
        meter.pause(now, pausedTime(now));
    }

    /** Ends a pause of its own. */
    synchronized void resume() {
        long now = timer.now();
        if (meter.resume(now, pausedTime(now))) {
            timer.execute(look);
        }
    }

    /** Ends before its time. */
    void stop() {
        synchronized (this) {
            stopped = true;
        }
        timer.execute(this::disarm);
    }

    synchronized Reading read() {
        long now = timer.now();
        long pausedTime = pausedTime(now);
        boolean paused = meter.isPaused() || thread.pause(now).paused();
        return new Reading(now - started, meter.elapsed(now, pausedTime), paused, expired);
    }

    /** The thread's paused time; afterwards the meter has its place. */
    private long pausedTime(long now) {
        long assumed = thread.pausedTime(now);
        // Looked for afterwards: without a place, what was read is from before the state that gives it.
        Optional<PausedTimeTracker.Place> place = joined.flatMap(PausedTimeTracker.Joined::place);
        if (place.isEmpty()) {
            return assumed;
        }
        meter.place(place.get().at(), place.get().pausedTime());
        joined = Optional.empty();
        return thread.pausedTime(now);
    }

    private void disarm() {
        alarm.cancel();
        thread.changed().remove(look);
        thread.answered().remove(look);
    }

    private void look() {
        disarm();
        Sight sight = sight();
        if (sight instanceof Sight.Runs runs) {
            wakeAt(runs.until);
            if (runs.perhaps) {
                thread.changed().add(look);
            }
        } else if (sight instanceof Sight.Frozen frozen) {
            thread.changed().add(look);
            frozen.validUntil.ifPresent(this::wakeAt);
        } else if (sight instanceof Sight.RanOut ranOut) {
            confirm(ranOut.at);
        }
    }

    private synchronized Sight sight() {
        if (expired || stopped) {
            return new Sight.Over();
        }
        long now = timer.now();
        long pausedTime = pausedTime(now);
        if (meter.isPaused()) {
            return new Sight.Still();
        }
        ThreadClock.Pause pause = thread.pause(now);
        if (pause.paused()) {
            return new Sight.Frozen(pause.validUntil());
        }
        long left = meter.left(now, pausedTime);
        return left > 0 ? new Sight.Runs(now + left, pause.validUntil().isPresent()) : new Sight.RanOut(now + left);
    }

    /** Sees to it that the coordinator is asked, and expires when that is settled. */
    private void confirm(long ranOut) {
        long now = timer.now();
        long giveUp = ranOut + thread.graceLeft(started);
        ThreadClock.Asked asked = thread.asked(ranOut);
        if (asked instanceof ThreadClock.Asked.NotYet) {
            thread.ask();
            awaitAnswer(later(giveUp, now + SHORTEST_ASK));
        } else if (asked instanceof ThreadClock.Asked.UnderWay question) {
            long enough = question.failed() ? giveUp : later(giveUp, question.began() + SHORTEST_ASK);
            if (now - enough >= 0) {
                expire();
            } else {
                awaitAnswer(enough);
            }
        } else if (asked instanceof ThreadClock.Asked.Answered || now - giveUp >= 0) {
            expire();
        } else {
            alarm = timer.in(Math.min(giveUp - now, Backoff.jittered(ASK_AGAIN)), () -> askAgain(ranOut, giveUp));
        }
    }

    private void askAgain(long ranOut, long giveUp) {
        if (timer.now() - giveUp < 0) {
            thread.ask();
        }
        look();
    }

    private void awaitAnswer(long until) {
        thread.answered().add(look);
        wakeAt(until);
    }

    /** Expires, unless a pause of its own has come between. */
    private void expire() {
        synchronized (this) {
            if (meter.isPaused() || stopped) {
                return;
            }
            expired = true;
        }
        onExpired.run();
    }

    private void wakeAt(long moment) {
        alarm = timer.in(Math.max(0, moment - timer.now()), look);
    }

    private static long later(long one, long other) {
        return one - other >= 0 ? one : other;
    }
}
