package dev.pausewatch;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * A {@link Timer} by a daemon thread, so that a process can end with an open client. Its clock stands still while the machine sleeps, on
 * Linux and macOS.
 *
 * <p>An open client has a thread of its own. After a {@link #handOver()}, one thread for the deadlines of all closed clients does
 * its work: a program that closes many clients has no thread for each. That thread ends when it has nothing to do.
 */
final class SystemTimer implements Timer {
    private static final System.Logger LOG = System.getLogger(SystemTimer.class.getName());

    private static final ScheduledThreadPoolExecutor CLOSED_CLIENTS = thread("pausewatch-closed");

    static {
        CLOSED_CLIENTS.setKeepAliveTime(1, TimeUnit.SECONDS);
        CLOSED_CLIENTS.allowCoreThreadTimeOut(true);
    }

    private final ScheduledThreadPoolExecutor own = thread("pausewatch");

    /** Guarded by {@link #pending}, as is what follows. */
    private ScheduledThreadPoolExecutor thread = own;

    private final Set<Task> pending = new HashSet<>();
    private long tasks;
    private boolean ended;

    @Override
    public long now() {
        return System.nanoTime();
    }

    @Override
    public Alarm in(long nanos, Runnable task) {
        synchronized (pending) {
            if (ended) {
                // Tasks after the end are not needed.
                return Alarm.NONE;
            }
            Task scheduled = new Task(task, now() + nanos, tasks++);
            pending.add(scheduled);
            scheduled.schedule();
            return scheduled;
        }
    }

    @Override
    public void execute(Runnable task) {
        in(0, task);
    }

    /** Continues on the thread of all closed clients. */
    void handOver() {
        // The last task of its own thread: two threads never run its tasks at the same time.
        execute(() -> {
            synchronized (pending) {
                if (thread == CLOSED_CLIENTS || ended) {
                    return;
                }
                thread = CLOSED_CLIENTS;
                own.shutdownNow();
                inOrder(pending).forEach(Task::schedule);
            }
        });
    }

    /** Runs no task any more. */
    void shutdown() {
        synchronized (pending) {
            ended = true;
            List.copyOf(pending).forEach(Task::cancel);
            own.shutdownNow();
        }
    }

    private static List<Task> inOrder(Collection<Task> tasks) {
        List<Task> sorted = new ArrayList<>(tasks);
        sorted.sort(Comparator.comparingLong(task -> task.number));
        return sorted;
    }

    /** A task that waits for its time. */
    private final class Task implements Alarm, Runnable {
        private final Runnable body;
        private final long due;
        private final long number;
        private Future<?> scheduled;

        Task(Runnable body, long due, long number) {
            this.body = body;
            this.due = due;
            this.number = number;
        }

        /** Requires the lock of {@link #pending}. */
        void schedule() {
            scheduled = thread.schedule(this, Math.max(0, due - now()), TimeUnit.NANOSECONDS);
        }

        @Override
        public void cancel() {
            synchronized (pending) {
                pending.remove(this);
                scheduled.cancel(false);
            }
        }

        @Override
        public void run() {
            synchronized (pending) {
                if (!pending.remove(this)) {
                    return;
                }
            }
            try {
                body.run();
            } catch (RuntimeException unexpected) {
                // Otherwise the exception would be lost in a future that nobody reads.
                LOG.log(System.Logger.Level.ERROR, "a background task failed", unexpected);
            }
        }
    }

    private static ScheduledThreadPoolExecutor thread(String name) {
        ScheduledThreadPoolExecutor thread = new ScheduledThreadPoolExecutor(
                1,
                body -> {
                    Thread daemon = new Thread(body, name);
                    daemon.setDaemon(true);
                    return daemon;
                },
                new ThreadPoolExecutor.DiscardPolicy());
        thread.setRemoveOnCancelPolicy(true);
        return thread;
    }
}
