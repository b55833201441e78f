package dev.pausewatch;

import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * A {@link Timer} by a daemon thread, so that a process can end with an open client. Its clock stands still while the machine sleeps, on
 * Linux and macOS.
 */
final class SystemTimer implements Timer {
    private static final System.Logger LOG = System.getLogger(SystemTimer.class.getName());

    private final ScheduledThreadPoolExecutor thread;

    SystemTimer() {
        // Tasks after the shutdown are not needed.
        thread = new ScheduledThreadPoolExecutor(1, this::daemon, new ThreadPoolExecutor.DiscardPolicy());
        thread.setRemoveOnCancelPolicy(true);
    }

    @Override
    public long now() {
        return System.nanoTime();
    }

    @Override
    public Alarm in(long nanos, Runnable task) {
        Future<?> scheduled = thread.schedule(() -> run(task), nanos, TimeUnit.NANOSECONDS);
        return () -> scheduled.cancel(false);
    }

    @Override
    public void execute(Runnable task) {
        thread.execute(() -> run(task));
    }

    void shutdown() {
        thread.shutdownNow();
    }

    private static void run(Runnable task) {
        try {
            task.run();
        } catch (RuntimeException unexpected) {
            // Otherwise the exception would be lost in a future that nobody reads.
            LOG.log(System.Logger.Level.ERROR, "a background task failed", unexpected);
        }
    }

    private Thread daemon(Runnable body) {
        Thread thread = new Thread(body, "pausewatch");
        thread.setDaemon(true);
        return thread;
    }
}
