package dev.pausewatch;

import java.util.concurrent.Executor;

/**
 * The one thread for the background work of a client: watches, renewals, retries, the ends of deadlines. Tasks on it
 * need no locks against each other, never block, and never call user code.
 */
interface Timer extends Executor {
    /** The time of a monotonic clock, in nanoseconds; only differences are meaningful. */
    long now();

    /** Runs {@code task} on the thread when {@code nanos} have passed. */
    Alarm in(long nanos, Runnable task);

    /** A task that waits for its time. */
    @FunctionalInterface
    interface Alarm {
        /** An alarm without a task. */
        Alarm NONE = () -> {};

        /** The task will not run, unless it is running; harmless at any time. */
        void cancel();
    }
}
