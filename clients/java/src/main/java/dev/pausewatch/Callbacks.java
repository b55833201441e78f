package dev.pausewatch;

import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

/**
 * The threads on which the futures of this library complete and its listeners are called: as many daemon threads as
 * needed, each kept for a minute after its last task. User code may block there.
 *
 * <p>The default executor of futures is unsuitable. On a machine with two processors or fewer, it starts a thread for
 * each task (up to Java 24): then the last of 1,000 timeouts that expire together is about 0.4 s late. On other
 * machines it is the common pool, where code that blocks delays everybody.
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
