package dev.pausewatch;

import java.util.concurrent.Executor;

/**
 * The one thread on which a client's background work happens: watches, renewals, retries, the ends of deadlines. What runs on it needs no
 * locks against the rest of what runs on it, never blocks, and never calls a user.
 */
interface Timer extends Executor {
    /** A moment of a clock that never goes back, in nanoseconds; only differences mean something. */
    long now();

    /** Runs {@code task} on the thread when {@code nanos} have passed. */
    Alarm in(long nanos, Runnable task);

    /** Whether the caller runs on the thread. */
    boolean isCurrent();

    /** A task that waits for its time. */
    @FunctionalInterface
    interface Alarm {
        /** One that has nothing to do. */
        Alarm NONE = () -> {};

        /** The task will not run, unless it is running; harmless at any time. */
        void cancel();
    }
}
