package dev.pausewatch;

import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.LongConsumer;

/**
 * A limit on time that does not count the time while it is paused, by itself or by the threads that it follows.
 *
 * <p>Waiting is a loop of checks: if there is time left, an alarm is set for the next check. A stopwatch is not notified when a
 * pause begins: the check after the alarm finds it. Only then, while paused, does it wait for a notification.
 *
 * <p>1. It checks on the timer's thread, where threads change too; so nothing changes unnoticed between a check and the wait that
 * follows, except its own pauses, which cause another check.
 *
 * <p>2. Only a check decides: after any wake-up the state is read again.
 *
 * <p>3. It expires only after the coordinator, asked after the time ran out, has confirmed that the thread runs (G1), or after
 * the coordinator was unreachable for the whole grace. Only its limit on wall time ends it without a confirmation: neither a
 * pause nor a confirmation extends that limit. Expiry is final.
 *
 * <p>The lock is this object's monitor, which is taken before its thread's.
 */
final class Stopwatch {
    private final Timer timer;
    private final Runnable onExpired;
    private final long started;
    /** The end of its limit on wall time; empty: it has none. */
    private final OptionalLong wallEnd;

    /** Guarded by this stopwatch, as is what follows. */
    private final Meter meter;

    private final Follows follows;
    /** The limit that ended it, which is final. */
    private Optional<EndedBy> endedBy = Optional.empty();

    /** The reading when it expired or was stopped, which does not change any more. */
    private Optional<Reading> atEnd = Optional.empty();

    private boolean stopped;
    /** When a check found that the time had run out; empty: it has not run out. */
    private OptionalLong noticed = OptionalLong.empty();

    /** On the timer's thread. */
    private Timer.Alarm alarm = Timer.Alarm.NONE;

    private final Runnable look = this::look;
    private final LongConsumer settle = this::settle;

    /** A reading at one moment, in nanoseconds. */
    record Reading(long wall, long elapsed, boolean paused, Optional<EndedBy> endedBy, boolean linked) {}

    /**
     * Starts now, under {@code thread}: if that is paused, it starts paused.
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
        // It may have expired just now.
        if (atEnd.isEmpty()) {
            follows.all().forEach(follow -> follow.thread.observe(settle));
        }
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
            gone.ifPresent(thread -> thread.leave(look));
            look();
        });
        return gone.isPresent();
    }

    private synchronized void settle(long now) {
        follows.settle(now);
    }

    /** Ends before its time. */
    void stop() {
        synchronized (this) {
            stopped = true;
            if (atEnd.isEmpty()) {
                end();
            }
        }
        timer.execute(this::disarm);
    }

    /** Keeps the reading of this moment, and follows no thread any more. */
    private void end() {
        atEnd = Optional.of(readNow());
        follows.all().forEach(follow -> follow.thread.ignore(settle));
    }

    synchronized Reading read() {
        return atEnd.orElseGet(this::readNow);
    }

    private Reading readNow() {
        // Read first: what is read after it is not older than the state that completed the link.
        boolean linked = follows.isLinked();
        long now = timer.now();
        long pausedTime = follows.pausedTime(now);
        boolean paused = meter.isPaused() || follows.isPaused(now);
        return new Reading(now - started, meter.elapsed(now, pausedTime), paused, endedBy, linked);
    }

    private synchronized void disarm() {
        alarm.cancel();
        for (Follows.Follow follow : follows.all()) {
            follow.thread.leave(look);
        }
    }

    private void look() {
        if (isOver()) {
            onExpired.run();
        }
    }

    /** Whether this check ends it. If not, schedules the next check. */
    private synchronized boolean isOver() {
        boolean isOver = mustEnd();
        if (isOver) {
            end();
        }
        return isOver;
    }

    private boolean mustEnd() {
        disarm();
        if (endedBy.isPresent() || stopped) {
            return false;
        }
        long now = timer.now();
        if (wallEnd.isPresent() && now - wallEnd.getAsLong() >= 0) {
            endedBy = Optional.of(EndedBy.MAX_WALL);
            return true;
        }
        long left = meter.left(now, follows.pausedTime(now));
        long foundAt = noticed.orElse(now);
        noticed = OptionalLong.empty();
        OptionalLong until;
        if (meter.isPaused()) {
            until = OptionalLong.empty();
        } else if (follows.isPaused(now)) {
            until = whilePaused(now);
        } else if (left > 0) {
            until = OptionalLong.of(now + left);
            whileAssumed();
        } else {
            noticed = OptionalLong.of(foundAt);
            until = whileUnconfirmed(now + left, foundAt);
            if (until.isEmpty() || now - until.getAsLong() >= 0) {
                endedBy = Optional.of(EndedBy.LIMIT);
                return true;
            }
        }
        wakeAt(until);
        return false;
    }

    /** Waits for a change of the paused threads. Returns until when a pause that cannot be confirmed counts. */
    private OptionalLong whilePaused(long now) {
        OptionalLong validUntil = OptionalLong.empty();
        for (Follows.Follow follow : follows.all()) {
            ThreadClock.Pause pause = follow.thread.pause(now);
            if (pause.paused()) {
                follow.thread.onChange(look);
                validUntil = earlier(validUntil, pause.validUntil());
            }
        }
        return validUntil;
    }

    /** Waits for a change of the threads that are not linked: their assumed states may be corrected. */
    private void whileAssumed() {
        for (Follows.Follow follow : follows.all()) {
            if (!follow.thread.isLinked()) {
                follow.thread.onChange(look);
            }
        }
    }

    /** Requests a confirmation of every thread. Returns until when to wait for them; empty: all have arrived. */
    private OptionalLong whileUnconfirmed(long ranOut, long noticedAt) {
        // The grace is one budget, whichever thread has used it.
        long graceLeft = Nanos.MAX;
        ThreadClock waitedFor = null;
        for (Follows.Follow follow : follows.all()) {
            graceLeft = Math.min(graceLeft, follow.thread.graceLeft(follow.joinedAt));
            if (!follow.thread.isConfirmed(ranOut)) {
                waitedFor = follow.thread;
                waitedFor.onAnswer(look);
                waitedFor.confirm(ranOut);
            }
        }
        return waitedFor == null
                ? OptionalLong.empty()
                : OptionalLong.of(waitedFor.confirmationDeadline(ranOut, noticedAt, ranOut + graceLeft));
    }

    /** Checks again at {@code moment} (empty: never), and at the end of the limit on wall time at the latest. */
    private void wakeAt(OptionalLong moment) {
        OptionalLong next = earlier(moment, wallEnd);
        if (next.isPresent()) {
            alarm = timer.in(Math.max(0, next.getAsLong() - timer.now()), look);
        }
    }

    private static OptionalLong earlier(OptionalLong one, OptionalLong other) {
        if (one.isEmpty() || other.isEmpty()) {
            return one.isEmpty() ? other : one;
        }
        return one.getAsLong() - other.getAsLong() <= 0 ? one : other;
    }
}
