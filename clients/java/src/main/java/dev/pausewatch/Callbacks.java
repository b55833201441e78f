package dev.pausewatch;

import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

/**
 * The threads on which the futures of this library complete, and its listeners are told: daemons, as many as are needed, that are used again for
 * a minute. What a user does there may block.
 *
 * <p>The default executor of futures is no place for that: on a machine with two processors or fewer it starts a thread for each task (up to
 * Java 24), which makes the last of 1,000 timeouts that expire together some 0.4 s late, and elsewhere it is the common pool, which what blocks
 * holds up for everybody.
 */
final class Callbacks {
    static final Executor EXECUTOR = Executors.newCachedThreadPool(Callbacks::daemon);

    private Callbacks() {}

    private static Thread daemon(Runnable body) {
        Thread thread = new Thread(body, "pausewatch-callbacks");
        thread.setDaemon(true);
        return thread;
    }
}
