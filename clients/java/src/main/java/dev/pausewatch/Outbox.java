package dev.pausewatch;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The events of a watch that are not delivered yet, and the states that its reader knows.
 *
 * <p>1. At most one state per thread is queued, the latest; so memory is bounded by the threads, never by their changes. A watch
 * of all threads, whose number is unbounded, reports when it is full: then the stream is not read, and the coordinator keeps the
 * latest state of each thread.
 *
 * <p>2. The revisions of one thread increase, except across a disconnect: a server that lost its state starts again.
 *
 * <p>3. A disconnect drops the undelivered states of its threads: the state after it replaces them. So at most one disconnect is
 * queued, and at most one end of a snapshot.
 *
 * <p>4. A watch of all threads remembers only those that are paused or have an undelivered state; and since the last disconnect,
 * those that the next snapshot must name. Threads that were never reported are not among them: the snapshot names them if they
 * are paused.
 *
 * <p>The lock is this object's monitor; callbacks are called without it.
 */
final class Outbox implements WatchListener {
    /** The maximum number of queued events of a watch of all threads, before its stream is not read any more. */
    static final int MAX_UNREAD_EVENTS = 10_000;

    private final boolean all;
    private final Map<String, KnownThread> threads = new HashMap<>();
    /** The queued events, in order: thread ids, and the two tokens. */
    private final Set<Object> queued = new LinkedHashSet<>();

    private final Set<String> disconnectedThreads = new LinkedHashSet<>();
    private PausewatchException disconnectError;
    private Duration disconnectSilentFor = Duration.ZERO;
    /** Whether a SnapshotComplete must be reported: a state has become unknown since the last one. */
    private boolean completeDue = true;

    private boolean closed;
    private Runnable onReady = () -> {};
    private Runnable onRoom = () -> {};

    private enum Token {
        DISCONNECTED,
        SNAPSHOT_COMPLETE
    }

    /** One thread. */
    private static final class KnownThread {
        /** Whether the state is unknown since the disconnect, or at all: then any revision is accepted. */
        boolean disconnected = true;
        /** Whether its refusal was reported, and no state has come since. */
        boolean refused;
        /** Whether the next reported state comes after a disconnect, or is the first. */
        boolean gap = true;
        /** The last reported version. */
        Optional<Version> reported = Optional.empty();
        /** The latest received version. */
        @Nullable
        Version latest;
        /** The latest state, if it was not reported yet. */
        @Nullable
        PauseState unreported;
    }

    Outbox(boolean all) {
        this.all = all;
    }

    /** {@code onReady} is called after every change that queues an event, on the thread that made the change. */
    synchronized void onReady(Runnable onReady) {
        this.onReady = onReady;
    }

    /** {@code onRoom} is called when the reader has made room in a full queue, on the reader's thread. */
    synchronized void onRoom(Runnable onRoom) {
        this.onRoom = onRoom;
    }

    /** Whether the queue is full, so that no more events should come for now. */
    @Override
    public synchronized boolean isFull() {
        return all && queued.size() >= MAX_UNREAD_EVENTS;
    }

    /** The number of queued events. */
    synchronized int size() {
        return queued.size();
    }

    @Override
    public synchronized void added(String threadId) {
        threads.putIfAbsent(threadId, new KnownThread());
        expectSnapshot();
    }

    @Override
    public synchronized void removed(String threadId) {
        threads.remove(threadId);
        queued.remove(threadId);
        if (disconnectedThreads.remove(threadId) && disconnectedThreads.isEmpty()) {
            queued.remove(Token.DISCONNECTED);
        }
    }

    @Override
    public void state(PauseState state, boolean snapshot) {
        if (put(state, snapshot)) {
            ready();
        }
    }

    private synchronized boolean put(PauseState state, boolean snapshot) {
        Version version = Version.of(state);
        KnownThread thread = threads.get(state.threadId());
        if (thread == null) {
            if (!all) {
                return false;
            }
            thread = new KnownThread();
            thread.gap = snapshot;
            threads.put(state.threadId(), thread);
        }
        if (!thread.disconnected && thread.latest != null && version.isNotNewerThan(thread.latest)) {
            return false;
        }
        thread.disconnected = false;
        thread.refused = false;
        thread.latest = version;
        thread.unreported = state;
        queued.add(state.threadId());
        return true;
    }

    @Override
    public synchronized void disconnectedAgain(Collection<String> threadIds) {
        for (String threadId : all ? List.copyOf(threads.keySet()) : threadIds) {
            KnownThread thread = threads.get(threadId);
            if (thread != null) {
                thread.disconnected = true;
                thread.gap = true;
                thread.unreported = null;
                queued.remove(threadId);
                if (all && thread.reported.isEmpty()) {
                    threads.remove(threadId);
                }
            }
        }
        expectSnapshot();
    }

    @Override
    public void disconnected(Collection<String> threadIds, PausewatchException error, long silentFor) {
        synchronized (this) {
            disconnectedAgain(threadIds);
            List<String> news = threadIds.stream()
                    .filter(id -> threads.containsKey(id) && !threads.get(id).refused)
                    .toList();
            if (!all && news.isEmpty()) {
                return;
            }
            if (!all) {
                disconnectedThreads.addAll(news);
            }
            disconnectError = error;
            disconnectSilentFor = Duration.ofNanos(silentFor);
            // After the states that are still queued, so that no later state of these threads comes before it.
            queued.add(Token.DISCONNECTED);
        }
        ready();
    }

    @Override
    public void refused(Collection<String> threadIds, PausewatchException error) {
        if (all) {
            threadIds.forEach(this::removed);
            return;
        }
        disconnected(threadIds, error, 0);
        synchronized (this) {
            threadIds.forEach(id -> threads.getOrDefault(id, new KnownThread()).refused = true);
        }
    }

    @Override
    public void snapshotComplete() {
        synchronized (this) {
            if (!completeDue) {
                return;
            }
            completeDue = false;
            queued.add(Token.SNAPSHOT_COMPLETE);
        }
        ready();
    }

    private void expectSnapshot() {
        completeDue = true;
        queued.remove(Token.SNAPSHOT_COMPLETE);
    }

    @Override
    public synchronized List<String> unknown() {
        return threads.entrySet().stream()
                .filter(thread -> thread.getValue().disconnected)
                .map(Map.Entry::getKey)
                .toList();
    }

    /** The next event, if there is one. */
    Optional<Watch.Event> poll() {
        Optional<Watch.Event> event;
        Runnable callback;
        synchronized (this) {
            boolean wasFull = isFull();
            event = take();
            callback = wasFull && !isFull() ? onRoom : () -> {};
        }
        callback.run();
        return event;
    }

    private Optional<Watch.Event> take() {
        Iterator<Object> first = queued.iterator();
        if (!first.hasNext()) {
            return Optional.empty();
        }
        Object next = first.next();
        first.remove();
        if (next == Token.SNAPSHOT_COMPLETE) {
            return Optional.of(new Watch.Event.SnapshotComplete());
        }
        if (next == Token.DISCONNECTED) {
            Watch.Event event = new Watch.Event.Disconnected(
                    List.copyOf(disconnectedThreads), disconnectError, disconnectSilentFor);
            disconnectedThreads.clear();
            return Optional.of(event);
        }
        return Optional.of(report((String) next));
    }

    private Watch.Event report(String threadId) {
        KnownThread thread = threads.get(threadId);
        PauseState state = thread.unreported;
        Optional<Version> version = Optional.of(Version.of(state));
        boolean changed = !thread.reported.equals(version);
        Watch.Event event = new Watch.Event.State(state, thread.gap, changed);
        thread.gap = false;
        thread.reported = version;
        thread.unreported = null;
        if (all && !state.paused()) {
            threads.remove(threadId);
        }
        return event;
    }

    /**
     * Waits for at most {@code nanos} for an event to {@link #poll()}, and returns whether there is one. False once it is closed.
     */
    synchronized boolean await(long nanos) throws InterruptedException {
        long end = System.nanoTime() + nanos;
        while (queued.isEmpty() && !closed) {
            long left = end - System.nanoTime();
            if (left <= 0) {
                return false;
            }
            wait(left / 1_000_000, (int) (left % 1_000_000));
        }
        return !closed;
    }

    synchronized boolean isReady() {
        return !queued.isEmpty();
    }

    synchronized void close() {
        closed = true;
        queued.clear();
        notifyAll();
    }

    private void ready() {
        Runnable callback;
        synchronized (this) {
            notifyAll();
            callback = onReady;
        }
        callback.run();
    }
}
