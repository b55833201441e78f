package dev.pausewatch;

import dev.pausewatch.v1.WatchPauseStateRequest;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * Threads that share one stream, across breaks and while they come and go. Everything happens on the timer's thread.
 *
 * <p>A stream cannot add threads. So when threads were added, a new stream is opened for all of them while the old one
 * goes on; what is added meanwhile waits for the next.
 *
 * <p>1. A change of streams is no gap: the old one serves until the new one has told everything; until then, what the new one tells of
 * threads that the old one serves is held back.
 *
 * <p>2. One stream is being opened at a time, and not sooner after the last than in proportion to the number of threads: a set that
 * changes all the time costs a bounded share of the server's time and of ours.
 *
 * <p>3. Every disconnection is reported once, until something is heard again.
 *
 * <p>4. A thread that is removed and added again is told again, by a new stream.
 */
final class WatchGroup implements WatchStream.Reader {
    /** Between two openings of a stream, for each of its threads: at most a hundred thousand ids a second are sent. */
    private static final long PACE_NANOS = TimeUnit.MICROSECONDS.toNanos(10);
    /** A stream with more ids of removed threads than others is opened anew, unless it is as small as this. */
    private static final int SMALL = 32;

    private static final int FIRST_PAUSE_MS = 50;
    private static final int LONGEST_PAUSE_MS = 3_000;

    private final Environment environment;
    private final boolean all;
    private final Runnable settled;
    private final Set<String> members = new LinkedHashSet<>();
    /** Those that the current stream does not serve. */
    private final Set<String> unserved = new LinkedHashSet<>();

    private final Backoff pauses = Backoff.ofMillis(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    private final Missing missing;

    private ServedStream current;
    private ServedStream opening;
    private Timer.Alarm next = Timer.Alarm.NONE;
    private boolean scheduled;
    private long notBefore;
    private boolean breakTold;
    private boolean closed;

    /**
     * What the groups of a watch share.
     *
     * @param includeElicitations whether states come with their elicitations
     * @param firstAnswer how long the opening of a stream may take
     * @param ask reads one thread
     */
    record Environment(
            Connection connection,
            Timer timer,
            Outbox outbox,
            boolean includeElicitations,
            Duration firstAnswer,
            Function<String, CompletableFuture<PauseState>> ask) {}

    /**
     * A stream.
     *
     * @param named how many threads it was opened for
     * @param threadIds those of them that have not been removed since: one that is added again must be told again
     * @param heldBack what it has told too early
     */
    private record ServedStream(
            WatchStream stream, int named, Set<String> threadIds, Map<String, PauseState> heldBack) {
        boolean isWorn() {
            return named > SMALL && threadIds.size() < named / 2;
        }
    }

    /** {@code settled} is called when all threads of this group have become known. */
    WatchGroup(Environment environment, boolean all, Runnable settled) {
        this.environment = environment;
        this.all = all;
        this.settled = settled;
        this.missing = new Missing(environment, this::tellIfSettled);
        this.notBefore = environment.timer.now();
        if (all) {
            environment.outbox.onRoom(() -> environment.timer.execute(this::readOn));
        }
    }

    int size() {
        return members.size();
    }

    void add(String threadId) {
        members.add(threadId);
        if (current == null || !current.threadIds.contains(threadId)) {
            unserved.add(threadId);
        }
        schedule();
    }

    void remove(String threadId) {
        members.remove(threadId);
        unserved.remove(threadId);
        for (ServedStream served : servedStreams()) {
            served.threadIds.remove(threadId);
            served.heldBack.remove(threadId);
        }
        if (members.isEmpty()) {
            cancelAll();
        } else {
            schedule();
            tellIfSettled();
        }
    }

    /** Opens the stream of a group of all threads. */
    void start() {
        schedule();
    }

    void close() {
        closed = true;
        cancelAll();
    }

    /** Whether all of its threads are known. */
    boolean isSettled() {
        return current != null && missing.isEmpty() && unserved.isEmpty();
    }

    @Override
    public void state(WatchStream stream, PauseState state) {
        if (isStream(current, stream)) {
            environment.outbox.state(state, false);
        } else if (isStream(opening, stream)) {
            breakTold = false;
            if (current != null && (all || current.threadIds.contains(state.threadId()))) {
                opening.heldBack.put(state.threadId(), state);
            } else {
                environment.outbox.state(state, true);
            }
        }
    }

    @Override
    public void complete(WatchStream stream) {
        if (!isStream(opening, stream)) {
            return;
        }
        ServedStream old = current;
        serveBy(opening);
        opening = null;
        breakTold = false;
        pauses.reset();
        current.heldBack.values().forEach(state -> environment.outbox.state(state, true));
        current.heldBack.clear();
        if (old != null) {
            old.stream.cancel();
        }
        notBefore = environment.timer.now() + members.size() * PACE_NANOS;
        schedule();
        if (all) {
            missing.ask(environment.outbox.unknown());
        } else {
            tellIfSettled();
        }
    }

    @Override
    public void broken(WatchStream stream, PausewatchException error, long silentFor) {
        if (isStream(current, stream)) {
            List<String> lost = all ? environment.outbox.threadIds() : List.copyOf(current.threadIds);
            serveBy(null);
            missing.forget();
            tellBreak(lost, error, silentFor);
            if (opening != null) {
                // It was heard after what has just been lost.
                opening.heldBack.values().forEach(state -> environment.outbox.state(state, true));
                opening.heldBack.clear();
                return;
            }
        } else if (isStream(opening, stream)) {
            List<String> lost = all ? environment.outbox.threadIds() : List.copyOf(unserved);
            opening = null;
            if (breakTold || (lost.isEmpty() && !all)) {
                environment.outbox.disconnect(lost);
            } else {
                tellBreak(lost, error, silentFor);
            }
        } else {
            return;
        }
        // Also after a stream that worked: the clients of a restarted server must not all come back at once.
        notBefore = environment.timer.now() + pauses.next();
        schedule();
    }

    @Override
    public boolean hasRoom() {
        return !environment.outbox.isFull();
    }

    private void readOn() {
        if (hasRoom()) {
            servedStreams().forEach(served -> served.stream.readOn());
        }
    }

    private void tellBreak(List<String> threadIds, PausewatchException error, long silentFor) {
        breakTold = true;
        environment.outbox.disconnected(threadIds, error, silentFor);
    }

    private void schedule() {
        if (closed || scheduled || opening != null || !isStreamWanted()) {
            return;
        }
        scheduled = true;
        next = environment.timer.in(Math.max(0, notBefore - environment.timer.now()), this::open);
    }

    private boolean isStreamWanted() {
        if (all || current == null) {
            return current == null && (all || !members.isEmpty());
        }
        return current.isWorn() || !unserved.isEmpty();
    }

    private void open() {
        scheduled = false;
        if (closed || opening != null || !isStreamWanted()) {
            return;
        }
        WatchStream stream = new WatchStream(environment.connection, environment.timer, this);
        opening = new ServedStream(stream, members.size(), new LinkedHashSet<>(members), new LinkedHashMap<>());
        WatchPauseStateRequest request = WatchPauseStateRequest.newBuilder()
                .addAllThreadIds(members)
                .setIncludeElicitations(environment.includeElicitations)
                .build();
        stream.open(request, environment.firstAnswer);
    }

    private void cancelAll() {
        next.cancel();
        scheduled = false;
        missing.forget();
        servedStreams().forEach(served -> served.stream.cancel());
        serveBy(null);
        opening = null;
        breakTold = false;
    }

    private void serveBy(ServedStream served) {
        current = served;
        unserved.clear();
        unserved.addAll(members);
        if (served != null) {
            unserved.removeAll(served.threadIds);
        }
    }

    private void tellIfSettled() {
        if (isSettled()) {
            settled.run();
        }
    }

    private List<ServedStream> servedStreams() {
        return Stream.of(current, opening).filter(Objects::nonNull).toList();
    }

    private static boolean isStream(ServedStream served, WatchStream stream) {
        return served != null && served.stream == stream;
    }
}
