package dev.pausewatch;

/**
 * What one stopwatch has been charged: wall time, less its thread's paused time, less its own pauses.
 *
 * <p>Pure: no clock is read; {@code now} and the thread's paused time ({@code paid}, see {@link Credit}) are arguments, in nanoseconds. What has been
 * charged is kept up to a mark and computed from there, so each operation is a few additions whatever happened before.
 *
 * <p>1. What is charged is never below zero, and what is shown never goes backwards: a credit that arrives late shows as a standstill until it
 * is used up.
 *
 * <p>2. Where a pause of the stopwatch's own and one of its thread overlap, the time counts once.
 *
 * <p>3. Each argument is at most {@link Nanos#MAX} from the next, and so is what is charged: no sum leaves a {@code long}.
 */
final class Meter {
    private final long limit;
    /** Charged up to {@code mark}, when the thread's paused time was {@code paidAtMark}. */
    private long charged;

    private long mark;
    private long paidAtMark;
    /** When it began to follow its thread, and what the paused time was taken for then. */
    private long followedAt;

    private long followedPaid;
    /** Pauses of its own that are open. */
    private int pauses;

    private long shown;

    Meter(long limit, long now) {
        this.limit = limit;
        this.mark = now;
        this.followedAt = now;
    }

    /** Whether it stands still by a pause of its own. */
    boolean isPaused() {
        return pauses > 0;
    }

    void pause(long now, long paid) {
        settle(now, paid);
        pauses++;
    }

    /** Ends one of its own pauses; says whether it was the last. */
    boolean resume(long now, long paid) {
        settle(now, paid);
        pauses = Math.max(0, pauses - 1);
        return pauses == 0;
    }

    /** From now on the paused time is a thread's, which stands at {@code paid}. */
    void follow(long now, long old, long paid) {
        settle(now, old);
        paidAtMark = paid;
        followedAt = now;
        followedPaid = paid;
    }

    /**
     * From now on the paused time stands at {@code paid}; what it stood at since it began to follow was only assumed. The difference may be from before
     * that, so it is charged or credited no more than the time since. What was settled meanwhile is never charged again: a pause of its own may have
     * been in it.
     */
    void place(long now, long paid) {
        long span = Math.max(0, now - followedAt);
        long growth = Math.min(Math.max(0, paid - followedPaid), span);
        settle(now, Math.max(followedPaid + growth, paidAtMark));
        paidAtMark = paid;
    }

    /** Moves the mark. */
    void settle(long now, long paid) {
        charged = charged(now, paid);
        mark = later(now);
        paidAtMark = paid;
    }

    /** What has been charged, as exactly as is known now. */
    long charged(long now, long paid) {
        long span = Math.max(0, now - mark);
        // Negative when less was paused than had been assumed while cut off.
        long growth = paid - paidAtMark;
        long sinceMark;
        if (pauses == 0 || growth > span) {
            // In a pause of its own all of the span is free already; what the thread was paused beyond it was paused
            // before the mark.
            sinceMark = span - growth;
        } else {
            sinceMark = Math.max(0, -growth);
        }
        long sum = charged + sinceMark;
        if (sum < 0) {
            // More credit than time: the rest must not be spent later.
            charged = 0;
            mark = later(now);
            paidAtMark = paid;
        }
        return Math.max(0, Math.min(sum, Nanos.MAX));
    }

    /** How much it is below its limit; at or beyond it, 0 or less. */
    long left(long now, long paid) {
        return limit - charged(now, paid);
    }

    /** What to show as elapsed. */
    long elapsed(long now, long paid) {
        shown = Math.max(shown, charged(now, paid));
        return shown;
    }

    private long later(long now) {
        return now - mark > 0 ? now : mark;
    }
}
