package dev.pausewatch;

/**
 * The time charged to one stopwatch: wall time, minus its threads' paused time, minus its own pauses.
 *
 * <p>Pure: no clock is read; {@code now} and the paused time of its threads ({@code pausedTime}, see {@link Follows}) are
 * arguments, in nanoseconds. The charged time is stored up to a mark and computed from there, so each operation is a few
 * additions.
 *
 * <p>1. The charged time is never negative, and the reported one never decreases: after a late credit it stands still until the
 * credit is used up.
 *
 * <p>2. Where a pause of the stopwatch and one of its thread overlap, the time counts once. If the thread was not paused then after
 * all, the time is still not charged: see {@link Covered}.
 *
 * <p>3. Each argument is at most {@link Nanos#MAX} from the next, and so is the charged time: no sum overflows a {@code long}.
 */
final class Meter {
    private final long limit;
    /** Charged up to {@code mark}, when the thread's paused time was {@code pausedTimeAtMark}. */
    private long charged;

    private long mark;
    private long pausedTimeAtMark;
    /** Pauses of its own that are open. */
    private int pauses;

    private final Covered covered = new Covered();
    private long shown;

    Meter(long limit, long now) {
        this.limit = limit;
        this.mark = now;
    }

    /** Whether a pause of its own is open. */
    boolean isPaused() {
        return pauses > 0;
    }

    void pause(long now, long pausedTime) {
        settle(now, pausedTime);
        pauses++;
    }

    /** Ends one of its own pauses; says whether it was the last. */
    boolean resume(long now, long pausedTime) {
        settle(now, pausedTime);
        pauses = Math.max(0, pauses - 1);
        return pauses == 0;
    }

    /** Moves the mark. */
    void settle(long now, long pausedTime) {
        moveMark(charged(now, pausedTime), now, pausedTime);
    }

    private void moveMark(long chargedUntil, long now, long pausedTime) {
        covered.cut(pausedTime);
        if (isPaused()) {
            // If the paused time grew by more than the time since the mark, the rest is older than this pause.
            long span = Math.max(0, now - mark);
            covered.add(Math.max(pausedTimeAtMark, pausedTime - span), pausedTime);
        }
        charged = chargedUntil;
        mark = later(now);
        pausedTimeAtMark = pausedTime;
    }

    /** What has been charged, as exactly as is known now. */
    long charged(long now, long pausedTime) {
        long span = Math.max(0, now - mark);
        // Negative if the thread was paused for less time than was assumed while disconnected.
        long growth = pausedTime - pausedTimeAtMark;
        long sinceMark;
        if (pauses == 0 || growth > span) {
            // In a pause of its own, the whole span is not charged anyway; if the thread's paused time grew by more
            // than the span, the rest is older than the mark.
            sinceMark = span - growth;
        } else {
            sinceMark = Math.max(0, -growth);
        }
        long sum = charged + sinceMark - covered.beyond(pausedTime);
        if (sum < 0) {
            // More paused time than wall time: the rest must not be credited later.
            moveMark(0, now, pausedTime);
        }
        return Math.max(0, Math.min(sum, Nanos.MAX));
    }

    /** How much it is below its limit; at or beyond it, 0 or less. */
    long left(long now, long pausedTime) {
        return limit - charged(now, pausedTime);
    }

    /** What to show as elapsed. */
    long elapsed(long now, long pausedTime) {
        shown = Math.max(shown, charged(now, pausedTime));
        return shown;
    }

    private long later(long now) {
        return now - mark > 0 ? now : mark;
    }
}
