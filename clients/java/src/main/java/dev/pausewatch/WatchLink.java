package dev.pausewatch;

import dev.pausewatch.v1.Refusal;
import dev.pausewatch.v1.WatchRequest;
import io.grpc.Status;
import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * The one stream of a watch, or of the deadlines of a client, across breaks and while threads come and go. Everything happens on the timer's
 * thread; {@link #add}, {@link #remove} and {@link #close} may be called on any.
 *
 * <p>1. One request is unanswered at a time. What changes meanwhile is collected, and goes with the next one.
 *
 * <p>2. A refusal concerns its request only. So confirmations and changes go in separate requests, in turns; and options, which only the first request
 * may have, go without ids.
 *
 * <p>3. Each new stream gets the whole set. Of all threads, that is those that were known: they may have resumed meanwhile.
 *
 * <p>4. Every disconnection is reported once, until something is heard again.
 *
 * <p>5. With several addresses, a stream that ends, or has no first message in time, moves the whole client to the next one; a move by others
 * ends the stream after a random delay.
 */
final class WatchLink implements WatchStream.Reader, ThreadClock.Confirmer {
    private static final System.Logger LOG = System.getLogger(WatchLink.class.getName());

    private static final int FIRST_PAUSE_MS = 50;
    private static final int LONGEST_PAUSE_MS = 3_000;
    /** The pause while a confirmation waits; up to twice as long, at random. */
    private static final long HURRIED_PAUSE = TimeUnit.MILLISECONDS.toNanos(100);
    /** How long the stream may be silent while it owes a confirmation; twice as long each next time. */
    private static final long FIRST_PATIENCE = TimeUnit.MILLISECONDS.toNanos(250);

    private static final long LONGEST_PATIENCE = TimeUnit.SECONDS.toNanos(30);
    /** The least patience before the first answer of a stream: it may have to connect. */
    private static final long CONNECT_PATIENCE = TimeUnit.SECONDS.toNanos(2);

    /** The longest random delay before a stream follows its client to another address. */
    private static final long LONGEST_MOVE_DELAY = TimeUnit.MILLISECONDS.toNanos(500);

    /** Before a request that was refused is sent again, if the server does not say. */
    private static final Duration TRY_AGAIN = Duration.ofSeconds(1);

    private final Environment environment;
    private final Timer timer;
    private final WatchListener listener;
    private final boolean all;
    private final WatchRequest setup;
    private final Set<String> members = new LinkedHashSet<>();
    private final WatchRequests requests = new WatchRequests();
    private final Backoff pauses = Backoff.ofMillis(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    private long patience = FIRST_PATIENCE;

    private @Nullable WatchStream stream;
    /** The request that is unanswered. */
    private @Nullable WatchRequest request;

    private long sentAt;
    /** Whether the stream has answered its first request. */
    private boolean answered;
    /** Whether the whole set has been told by this stream. */
    private boolean complete;

    private boolean limitTold;

    /** The next token of the stream, to be sent. */
    private Optional<String> nextToken = Optional.empty();

    private Timer.Alarm renewal = Timer.Alarm.NONE;

    /** Streams without an answer since the last one with one. */
    private int unanswered;
    /** The stream is about to follow its client to another address. */
    private boolean following;

    private Timer.Alarm move = Timer.Alarm.NONE;
    private final Runnable moved;

    private Timer.Alarm next = Timer.Alarm.NONE;
    private long notBefore;
    private boolean flushing;
    private boolean breakTold;
    private boolean closed;

    /**
     * What the links of a client share.
     *
     * @param firstAnswer how long the opening of a stream may take
     */
    record Environment(Connection connection, Timer timer, Duration firstAnswer) {}

    /**
     * {@code setup}: the request that begins each stream, unless it is empty. If it is of all threads, add and remove do
     * nothing.
     */
    WatchLink(Environment environment, WatchListener listener, WatchRequest setup) {
        this.environment = environment;
        this.timer = environment.timer;
        this.listener = listener;
        this.setup = setup;
        this.all = setup.getAllThreads();
        this.notBefore = timer.now();
        this.moved = () -> timer.execute(this::followLater);
        if (all) {
            timer.execute(this::connect);
        }
    }

    void add(String threadId) {
        timer.execute(() -> addNow(threadId));
    }

    void remove(String threadId) {
        timer.execute(() -> removeNow(threadId));
    }

    void close() {
        timer.execute(() -> {
            closed = true;
            drop();
        });
    }

    /** The listener has room again. */
    void readOn() {
        timer.execute(() -> {
            if (stream != null && !listener.isFull()) {
                stream.readOn();
            }
        });
    }

    @Override
    public void confirm(String threadId) {
        if (closed || !requests.confirm(threadId)) {
            return;
        }
        if (stream == null) {
            connect();
        } else {
            hurry();
            flushSoon();
        }
    }

    @Override
    public void forget(String threadId) {
        requests.forget(threadId);
        calm();
    }

    @Override
    public boolean hasStream() {
        return stream != null;
    }

    @Override
    public void state(PauseState state) {
        breakTold = false;
        listener.state(state, !complete);
    }

    @Override
    public void confirmed(List<PauseState> states) {
        listener.confirmed(states, sentAt, threadId -> members.contains(threadId) && requests.isAsked(threadId));
    }

    @Override
    public void answered() {
        limitTold = limitTold && request.getAddCount() == 0;
        request = null;
        answered = true;
        breakTold = false;
        pauses.reset();
        unanswered = 0;
        patience = FIRST_PATIENCE;
        calm();
        flush();
    }

    @Override
    public void refused(Refusal refusal) {
        WatchRequest refused = request;
        PausewatchException error = Failure.refused(refusal);
        if (refused.equals(setup)) {
            stream.fail(error);
            return;
        }
        request = null;
        if (!refused.getToken().isEmpty()) {
            // It has the one before until that ends.
            calm();
            flush();
            return;
        }
        answered = true;
        requests.forbid(refusal.getThreadIdsList());
        requests.retryChanges(refused, this::isWatched);
        if (refusal.getThreadIdsCount() > 0) {
            requests.retryConfirmations(refused, this::isWatched);
            listener.refused(refusal.getThreadIdsList(), error);
        } else {
            limited(refused, error);
        }
        calm();
        flush();
    }

    private void limited(WatchRequest refused, PausewatchException error) {
        long wait = error instanceof LimitExceededException limit
                ? Nanos.of(limit.retryAfter().orElse(TRY_AGAIN))
                : Nanos.of(TRY_AGAIN);
        timer.in(wait, () -> {
            refused.getConfirmList().forEach(this::confirm);
            flush();
        });
        if (refused.getAddCount() > 0) {
            requests.delayAdditions(timer.now() + wait);
            if (!all && !limitTold) {
                limitTold = true;
                listener.disconnected(refused.getAddList(), error, 0);
            }
        }
    }

    private boolean isWatched(String threadId) {
        return all || members.contains(threadId);
    }

    @Override
    public void broken(PausewatchException error, long silentFor, boolean owesAnswer) {
        if (owesAnswer) {
            patience = Math.min(2 * patience, LONGEST_PATIENCE);
        }
        // A slow answer is no reason to move everything, unless the next stream has none either; a refusal is the same
        // everywhere.
        boolean slow = owesAnswer && answered;
        boolean leaves = stream != null
                && !slow
                && error instanceof UnavailableException
                && environment.connection.moveOn(stream.moves());
        if (leaves) {
            unanswered++;
        }
        stream = null;
        request = null;
        renewal.cancel();
        move.cancel();
        if (following) {
            notBefore = timer.now();
        } else if (leaves && unanswered % environment.connection.addresses() != 0) {
            notBefore = timer.now() + Backoff.jittered(TimeUnit.MILLISECONDS.toNanos(FIRST_PAUSE_MS));
        } else {
            // Also after a stream that worked: the clients of a restarted server must not all come back at once.
            notBefore = timer.now() + pauses.next();
        }
        following = false;
        requests.allowAll();
        List<String> lost = List.copyOf(members);
        if (breakTold) {
            listener.disconnectedAgain(lost);
        } else {
            breakTold = true;
            listener.disconnected(lost, error, silentFor);
        }
        connect();
    }

    /** The client has moved, perhaps: the stream follows, not all streams of a replica at once. */
    private void followLater() {
        if (stream != null
                && !following
                && stream.moves() != environment.connection.now().moves()) {
            following = true;
            move = timer.in(ThreadLocalRandom.current().nextLong(LONGEST_MOVE_DELAY), () -> {
                if (stream != null) {
                    stream.fail(Failure.made(Status.UNAVAILABLE, "the client has moved to another address", null));
                }
            });
        }
    }

    @Override
    public boolean hasRoom() {
        return !listener.isFull();
    }

    private void addNow(String threadId) {
        if (closed || all || !members.add(threadId)) {
            return;
        }
        listener.added(threadId);
        requests.add(threadId);
        if (stream == null) {
            connect();
        } else {
            flushSoon();
        }
    }

    private void removeNow(String threadId) {
        if (!members.remove(threadId)) {
            return;
        }
        listener.removed(threadId);
        requests.remove(threadId);
        if (members.isEmpty()) {
            drop();
        } else {
            flushSoon();
        }
    }

    /** Opens a stream when it is time. */
    private void connect() {
        next.cancel();
        if (closed || stream != null || (!all && members.isEmpty())) {
            return;
        }
        long wait = Math.max(0, notBefore - timer.now());
        if (requests.isConfirming() && wait > 2 * HURRIED_PAUSE) {
            wait = Backoff.jittered(HURRIED_PAUSE);
            notBefore = timer.now() + wait;
        }
        next = timer.in(wait, this::open);
    }

    private void open() {
        requests.restart(all ? listener.unknown() : members, timer.now());
        answered = false;
        complete = false;
        Optional<String> token;
        try {
            token = environment.connection.nextToken();
        } catch (PausewatchException noToken) {
            broken(noToken, 0, false);
            return;
        }
        environment.connection.onMove(moved);
        stream = new WatchStream(environment.connection, timer, this);
        stream.open(environment.firstAnswer, token);
        followLater();
        nextToken = Optional.empty();
        token.ifPresent(this::renewLater);
        if (requests.isConfirming()) {
            hurry();
        }
        if (setup.equals(WatchRequest.getDefaultInstance())) {
            flush();
        } else {
            send(setup);
        }
    }

    private void renewLater(String token) {
        renewal = timer.in(Tokens.askAgainAfterNanos(token, Instant.now()), () -> renew(token));
    }

    /** Sends the token as it is now, if it is another one than the stream has. */
    private void renew(String token) {
        if (stream == null) {
            return;
        }
        String next;
        try {
            next = environment.connection.nextToken().orElse(token);
        } catch (PausewatchException noToken) {
            LOG.log(System.Logger.Level.WARNING, "the token cannot be renewed", noToken);
            renewal = timer.in(Tokens.SHORTEST_NANOS, () -> renew(token));
            return;
        }
        if (!next.equals(token)) {
            nextToken = Optional.of(next);
            flush();
        }
        renewLater(next);
    }

    /** An answer that a timeout waits for is due. */
    private void hurry() {
        stream.hurry(answered ? patience : Math.max(patience, CONNECT_PATIENCE));
    }

    private void calm() {
        if (stream != null && !requests.isConfirming() && (request == null || request.getConfirmCount() == 0)) {
            stream.calm();
        }
    }

    private void drop() {
        next.cancel();
        renewal.cancel();
        move.cancel();
        following = false;
        environment.connection.forget(moved);
        breakTold = false;
        requests.stop();
        if (stream != null) {
            stream.cancel();
            stream = null;
            request = null;
        }
    }

    /** Together with what else is due now. */
    private void flushSoon() {
        if (!flushing && request == null) {
            flushing = true;
            timer.execute(() -> {
                flushing = false;
                flush();
            });
        }
    }

    private void flush() {
        if (stream == null || request != null) {
            return;
        }
        if (answered && !requests.isAdding()) {
            complete = true;
            listener.snapshotComplete();
        }
        if (answered && nextToken.isPresent()) {
            // Alone: refused, it has nothing that must be sent again.
            WatchRequest renewed =
                    WatchRequest.newBuilder().setToken(nextToken.get()).build();
            nextToken = Optional.empty();
            send(renewed);
            return;
        }
        requests.next(timer.now(), answered).ifPresent(this::send);
    }

    private void send(WatchRequest sent) {
        request = sent;
        sentAt = timer.now();
        if (sent.getConfirmCount() > 0) {
            listener.asked(sent.getConfirmList(), sentAt);
            stream.calm();
            hurry();
        }
        stream.send(sent);
    }
}
