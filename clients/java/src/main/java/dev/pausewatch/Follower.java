package dev.pausewatch;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * Follows the threads of stopwatches, and passes the events of the stream to the threads' clocks.
 *
 * <p>1. One stream follows all threads of a follower.
 *
 * <p>2. A thread is followed for {@link #LINGER_NANOS} after its last stopwatch: the next command of the thread starts
 * with the exact state, and without a request to the coordinator.
 *
 * <p>Its lock is its monitor. No other one is taken while it is held.
 */
final class Follower implements WatchListener {
    /** How long a thread without stopwatches is still followed. */
    private static final long LINGER_NANOS = TimeUnit.SECONDS.toNanos(30);

    private final Timer timer;
    private final long grace;
    private final LinkReporter reporter;
    private final WatchLink link;
    private final Consumer<Follower> onIdle;
    private final Map<String, Followed> threads = new HashMap<>();
    private boolean closed;

    private static final class Followed {
        final ThreadClock clock;
        int registered;
        /** It was refused, and no state has come since. */
        boolean refused;

        Timer.Alarm forgetting = Timer.Alarm.NONE;

        Followed(ThreadClock clock) {
            this.clock = clock;
        }
    }

    /**
     * {@code open} opens the stream, whose events this follower receives; {@code onIdle} is called when the last thread is not
     * followed any more.
     */
    Follower(
            Timer timer,
            long grace,
            LinkReporter reporter,
            Function<WatchListener, WatchLink> open,
            Consumer<Follower> onIdle) {
        this.timer = timer;
        this.reporter = reporter;
        this.grace = grace;
        this.onIdle = onIdle;
        this.link = open.apply(this);
    }

    /** The clock of a thread, which is followed until {@link #leave}. */
    synchronized ThreadClock enter(String threadId) {
        Followed thread = threads.get(threadId);
        if (thread == null) {
            thread = new Followed(new ThreadClock(threadId, timer, grace, link));
            threads.put(threadId, thread);
            // Under the lock, so that it keeps its order with the removal of an idle thread.
            if (closed) {
                thread.clock.close();
            } else {
                link.add(threadId);
            }
        }
        thread.registered++;
        thread.forgetting.cancel();
        return thread.clock;
    }

    synchronized void leave(String threadId) {
        Followed thread = threads.get(threadId);
        thread.registered--;
        if (thread.registered > 0) {
            return;
        }
        if (closed) {
            threads.remove(threadId);
        } else {
            thread.forgetting = timer.in(LINGER_NANOS, () -> forget(threadId));
        }
    }

    /** Ends the stream. The stopwatches continue, and their threads count as running. Calling it again is harmless. */
    void close() {
        reporter.close();
        link.close();
        List<ThreadClock> clocks;
        synchronized (this) {
            closed = true;
            threads.values().forEach(thread -> thread.forgetting.cancel());
            threads.values().removeIf(thread -> thread.registered == 0);
            clocks = threads.values().stream().map(thread -> thread.clock).toList();
        }
        // Without the lock: a stopwatch that this wakes may enter and leave.
        clocks.forEach(ThreadClock::close);
    }

    private void forget(String threadId) {
        synchronized (this) {
            Followed thread = threads.get(threadId);
            if (thread == null || thread.registered > 0) {
                return;
            }
            threads.remove(threadId);
            link.remove(threadId);
        }
        if (isIdle()) {
            onIdle.accept(this);
        }
    }

    /** Whether it follows no thread. */
    synchronized boolean isIdle() {
        return threads.isEmpty();
    }

    /** Notes that these threads are refused. Returns whether one of them was not refused before. */
    private synchronized boolean areRefused(Collection<String> threadIds) {
        boolean isNews = false;
        for (String threadId : threadIds) {
            Followed thread = threads.get(threadId);
            if (thread != null) {
                isNews |= !thread.refused;
                thread.refused = true;
            }
        }
        return isNews;
    }

    private synchronized void isWatched(String threadId) {
        Followed thread = threads.get(threadId);
        if (thread != null) {
            thread.refused = false;
        }
    }

    /** The clock of a thread; {@code null}: it is not followed any more. */
    private synchronized @Nullable ThreadClock clock(String threadId) {
        Followed thread = threads.get(threadId);
        return thread == null ? null : thread.clock;
    }

    @Override
    public void state(PauseState state, boolean snapshot) {
        isWatched(state.threadId());
        ThreadClock clock = clock(state.threadId());
        if (clock != null) {
            clock.apply(state, Sleep.slept());
        }
    }

    @Override
    public void asked(List<String> threadIds, long at) {
        for (String threadId : threadIds) {
            ThreadClock clock = clock(threadId);
            if (clock != null) {
                clock.asked(at);
            }
        }
    }

    @Override
    public void confirmed(List<PauseState> states, long askedAt, Predicate<String> served) {
        long slept = Sleep.slept();
        for (PauseState state : states) {
            ThreadClock clock = clock(state.threadId());
            if (clock == null) {
                continue;
            }
            clock.apply(state, slept);
            if (!served.test(state.threadId())) {
                clock.disconnect(0);
            }
            clock.confirmed(askedAt);
        }
    }

    @Override
    public void snapshotComplete() {
        reporter.connected();
    }

    @Override
    public void disconnected(Collection<String> threadIds, PausewatchException error, long silentFor) {
        // The threads first: when the program receives the new state of the link, its deadlines already have it.
        disconnect(threadIds, silentFor);
        reporter.disconnected(error, silentFor);
    }

    /** The stream continues without these threads, so the link is not disconnected. */
    @Override
    public void refused(Collection<String> threadIds, PausewatchException error) {
        if (areRefused(threadIds)) {
            reporter.refused(error);
        }
        disconnect(threadIds, 0);
    }

    private void disconnect(Collection<String> threadIds, long silentFor) {
        for (String threadId : threadIds) {
            ThreadClock clock = clock(threadId);
            if (clock != null) {
                clock.disconnect(silentFor);
            }
        }
    }

    @Override
    public void disconnectedAgain(Collection<String> threadIds) {
        disconnect(threadIds, 0);
    }
}
