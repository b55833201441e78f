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
 * What the reader of a watch has not been told yet, and what it knows.
 *
 * <p>1. At most one state a thread waits, the latest; so memory is bounded by the threads, never by their changes. Of a watch of all threads, which
 * have no end, it says when it is full: then the stream is not read, and the coordinator keeps the latest state of each thread.
 *
 * <p>2. Of one thread, revisions rise, except across a break: a server that lost its state begins anew.
 *
 * <p>3. A break takes back what was not told yet of its threads: the state after it says more. So at most one break waits, and at most one
 * end of a snapshot.
 *
 * <p>4. Of a watch of all threads only those are remembered that are paused, or not told yet; and since the last break, those that the next
 * snapshot must name. Those that were never told are not among them: it names them if they are paused.
 *
 * <p>Its lock is its monitor; the callbacks are called without it.
 */
final class Outbox implements WatchListener {
    /** So many events wait for the reader of all threads before the stream stands. */
    static final int BACKLOG = 10_000;

    private final boolean all;
    private final Map<String, Known> threads = new HashMap<>();
    /** What waits to be told, in order: thread ids, and the two tokens. */
    private final Set<Object> waiting = new LinkedHashSet<>();

    private final Set<String> cutThreads = new LinkedHashSet<>();
    private PausewatchException cutError;
    private Duration cutSilentFor = Duration.ZERO;
    /** Something has become unknown since the last end of a snapshot was told. */
    private boolean completeDue = true;

    private boolean closed;
    private Runnable onReady = () -> {};
    private Runnable onRoom = () -> {};

    private enum Token {
        DISCONNECTED,
        SNAPSHOT_COMPLETE
    }

    /** One thread. */
    private static final class Known {
        /** Nothing is known since the break, or at all: any revision will do. */
        boolean disconnected = true;
        /** The next state that is told comes after a break, or is the first. */
        boolean gap = true;
        /** The last version that was told. */
        Optional<Version> told = Optional.empty();
        /** The latest version that came. */
        @Nullable
        Version latest;
        /** The latest state, if it was not told yet. */
        @Nullable
        PauseState untold;
    }

    Outbox(boolean all) {
        this.all = all;
    }

    /** {@code onReady} is called after every change that gives the reader something to do, on the thread that made it. */
    synchronized void onReady(Runnable onReady) {
        this.onReady = onReady;
    }

    /** {@code onRoom} is called when the reader has made room in what was full, on its thread. */
    synchronized void onRoom(Runnable onRoom) {
        this.onRoom = onRoom;
    }

    /** Whether so much waits that nothing more should come for now. */
    @Override
    public synchronized boolean isFull() {
        return all && waiting.size() >= BACKLOG;
    }

    /** How many events wait. */
    synchronized int size() {
        return waiting.size();
    }

    @Override
    public synchronized void added(String threadId) {
        threads.putIfAbsent(threadId, new Known());
        expectSnapshot();
    }

    @Override
    public synchronized void removed(String threadId) {
        threads.remove(threadId);
        waiting.remove(threadId);
    }

    @Override
    public void state(PauseState state, boolean snapshot) {
        if (put(state, snapshot)) {
            ready();
        }
    }

    private synchronized boolean put(PauseState state, boolean snapshot) {
        Version version = Version.of(state);
        Known thread = threads.get(state.threadId());
        if (thread == null) {
            if (!all) {
                return false;
            }
            thread = new Known();
            thread.gap = snapshot;
            threads.put(state.threadId(), thread);
        }
        if (!thread.disconnected && thread.latest != null && version.isNoNews(thread.latest)) {
            return false;
        }
        thread.disconnected = false;
        thread.latest = version;
        thread.untold = state;
        waiting.add(state.threadId());
        return true;
    }

    @Override
    public synchronized void disconnectedAgain(Collection<String> threadIds) {
        for (String threadId : all ? List.copyOf(threads.keySet()) : threadIds) {
            Known thread = threads.get(threadId);
            if (thread != null) {
                thread.disconnected = true;
                thread.gap = true;
                thread.untold = null;
                waiting.remove(threadId);
                if (all && thread.told.isEmpty()) {
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
            if (!all) {
                cutThreads.addAll(threadIds);
            }
            cutError = error;
            cutSilentFor = Duration.ofNanos(silentFor);
            // Behind what is left to tell, so that no state of these threads comes before it.
            waiting.add(Token.DISCONNECTED);
        }
        ready();
    }

    @Override
    public void refused(Collection<String> threadIds, PausewatchException error) {
        if (all) {
            threadIds.forEach(this::removed);
        } else {
            disconnected(threadIds, error, 0);
        }
    }

    @Override
    public void snapshotComplete() {
        synchronized (this) {
            if (!completeDue) {
                return;
            }
            completeDue = false;
            waiting.add(Token.SNAPSHOT_COMPLETE);
        }
        ready();
    }

    private void expectSnapshot() {
        completeDue = true;
        waiting.remove(Token.SNAPSHOT_COMPLETE);
    }

    @Override
    public synchronized List<String> unknown() {
        return threads.entrySet().stream()
                .filter(thread -> thread.getValue().disconnected)
                .map(Map.Entry::getKey)
                .toList();
    }

    /** The next event, if there is one. */
    Optional<WatchEvent> poll() {
        Optional<WatchEvent> event;
        Runnable callback;
        synchronized (this) {
            boolean wasFull = isFull();
            event = take();
            callback = wasFull && !isFull() ? onRoom : () -> {};
        }
        callback.run();
        return event;
    }

    private Optional<WatchEvent> take() {
        Iterator<Object> first = waiting.iterator();
        if (!first.hasNext()) {
            return Optional.empty();
        }
        Object next = first.next();
        first.remove();
        if (next == Token.SNAPSHOT_COMPLETE) {
            return Optional.of(new WatchEvent.SnapshotComplete());
        }
        if (next == Token.DISCONNECTED) {
            WatchEvent event = new WatchEvent.Disconnected(List.copyOf(cutThreads), cutError, cutSilentFor);
            cutThreads.clear();
            return Optional.of(event);
        }
        return Optional.of(tell((String) next));
    }

    private WatchEvent tell(String threadId) {
        Known thread = threads.get(threadId);
        PauseState state = thread.untold;
        Optional<Version> version = Optional.of(Version.of(state));
        boolean changed = !thread.told.equals(version);
        WatchEvent event = new WatchEvent.State(state, thread.gap, changed);
        thread.gap = false;
        thread.told = version;
        thread.untold = null;
        if (all && !state.paused()) {
            threads.remove(threadId);
        }
        return event;
    }

    /** Whether there is something to {@link #poll()}, after waiting for it for at most {@code nanos}. Not once it is closed. */
    synchronized boolean await(long nanos) throws InterruptedException {
        long end = System.nanoTime() + nanos;
        while (waiting.isEmpty() && !closed) {
            long left = end - System.nanoTime();
            if (left <= 0) {
                return false;
            }
            wait(left / 1_000_000, (int) (left % 1_000_000));
        }
        return !closed;
    }

    synchronized boolean isReady() {
        return !waiting.isEmpty();
    }

    synchronized void close() {
        closed = true;
        waiting.clear();
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
