package dev.pausewatch;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * Retry delays: doubling from {@code first} to {@code most}, each plus up to 100 % at random, so that the clients of a restarted
 * server do not reconnect all at once.
 */
final class Backoff {
    private final long first;
    private final long most;
    private long next;

    private Backoff(long first, long most) {
        this.first = first;
        this.most = most;
        this.next = first;
    }

    static Backoff ofMillis(long first, long most) {
        return ofNanos(TimeUnit.MILLISECONDS.toNanos(first), TimeUnit.MILLISECONDS.toNanos(most));
    }

    static Backoff ofNanos(long first, long most) {
        return new Backoff(first, most);
    }

    /** The next delay, in nanoseconds. */
    long next() {
        long pause = next;
        next = Math.min(most, 2 * pause);
        return jittered(pause);
    }

    /** Starts again with {@code first}. */
    void reset() {
        next = first;
    }

    /** A random delay between {@code pause} and twice {@code pause}. */
    static long jittered(long pause) {
        return pause + ThreadLocalRandom.current().nextLong(pause + 1);
    }
}
