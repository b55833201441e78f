package dev.pausewatch;

import dev.pausewatch.v1.Refusal;
import dev.pausewatch.v1.WatchRequest;
import io.grpc.Status;
import java.time.Duration;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * The one stream of a watch, or of the deadlines of a client, across disconnects and while threads are added and removed.
 * Everything happens on the timer's thread; {@link #add}, {@link #remove} and {@link #close} may be called on any.
 *
 * <p>1. At most one request is unanswered. Changes meanwhile are collected, and sent with the next request.
 *
 * <p>2. A refusal concerns only its request. So confirmations and changes have separate requests, in turns; and options, which
 * only the first request may have, are sent without ids.
 *
 * <p>3. Each new stream is sent the whole set. A watch of all threads sends those that were known: they may have resumed
 * meanwhile.
 *
 * <p>4. Every disconnect is reported once, until the next message is received.
 *
 * <p>5. With several addresses, a stream that ends, or has no first message in time, moves the whole client to the next one; a
 * move by others ends the stream after a random delay.
 */
final class WatchLink implements WatchStream.Reader, ThreadClock.Confirmer {
    private static final int FIRST_RETRY_DELAY_MS = 50;
    private static final int MAX_RETRY_DELAY_MS = 3_000;
    /** The maximum delay before a stream is reopened while a confirmation waits; plus up to 100 % at random. */
    private static final long MAX_CONFIRMATION_DELAY = TimeUnit.MILLISECONDS.toNanos(100);
    /** How long the stream may be silent while a confirmation is awaited; doubled each time that none arrives. */
    private static final long CONFIRMATION_TIMEOUT = TimeUnit.MILLISECONDS.toNanos(250);

    private static final long MAX_CONFIRMATION_TIMEOUT = TimeUnit.SECONDS.toNanos(30);
    /** The minimum of this time before the first answer of a stream, which may have to connect first. */
    private static final long FIRST_ANSWER_TIMEOUT = TimeUnit.SECONDS.toNanos(2);

    /** The delay before a refused request is sent again, if the server sends none. */
    private static final Duration RETRY_AFTER = Duration.ofSeconds(1);

    private final Connection connection;
    private final Timer timer;
    private final Duration firstAnswer;
    private final WatchListener listener;
    private final boolean all;
    private final WatchRequest setup;
    private final Set<String> members = new LinkedHashSet<>();
    private final WatchRequests requests = new WatchRequests();
    private final StreamToken token;
    private final StreamMove move;
    private final Backoff retryDelays = Backoff.ofMillis(FIRST_RETRY_DELAY_MS, MAX_RETRY_DELAY_MS);
    private long confirmationTimeout = CONFIRMATION_TIMEOUT;

    private @Nullable WatchStream stream;
    /** The unanswered request. */
    private @Nullable WatchRequest request;

    private long sentAt;
    /** Whether the stream has answered its first request. */
    private boolean answered;
    /** Whether this stream has reported the whole set. */
    private boolean complete;

    /** The threads whose additions a limit has refused, as was reported. */
    private final Set<String> limited = new HashSet<>();

    /** The number of streams without an answer since the last one with an answer. */
    private int unanswered;

    private Timer.Alarm next = Timer.Alarm.NONE;
    /** The earliest time for the next stream, unless a confirmation is awaited. */
    private long notBefore;
    /** The earliest time for the next stream in any case: the server has refused one until then. */
    private long limitedUntil;

    private boolean flushing;
    private boolean disconnectReported;
    /** Whether a stream waits for its token. */
    private boolean asking;

    private boolean closed;

    /**
     * {@code firstAnswer}: how long the opening of a stream may take; {@code setup}: the first request of each stream, unless it is
     * empty. If it watches all threads, add and remove do nothing.
     */
    WatchLink(Connection connection, Timer timer, Duration firstAnswer, WatchListener listener, WatchRequest setup) {
        this.connection = connection;
        this.timer = timer;
        this.firstAnswer = firstAnswer;
        this.listener = listener;
        this.setup = setup;
        this.all = setup.getAllThreads();
        this.notBefore = timer.now();
        this.limitedUntil = notBefore;
        this.token = new StreamToken(connection, timer, this::flush);
        this.move = new StreamMove(connection, timer);
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

    /** Continues reading: the listener has room again. */
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
            expectAnswer();
            flushSoon();
        }
    }

    @Override
    public void forget(String threadId) {
        requests.forget(threadId);
        stopExpecting();
    }

    @Override
    public boolean hasStream() {
        return stream != null;
    }

    @Override
    public void state(PauseState state) {
        disconnectReported = false;
        listener.state(state, !complete);
    }

    @Override
    public void confirmed(List<PauseState> states) {
        listener.confirmed(states, sentAt, threadId -> members.contains(threadId) && requests.isAsked(threadId));
    }

    @Override
    public void answered() {
        request.getAddList().forEach(limited::remove);
        request = null;
        answered = true;
        disconnectReported = false;
        retryDelays.reset();
        unanswered = 0;
        confirmationTimeout = CONFIRMATION_TIMEOUT;
        stopExpecting();
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
            // The stream keeps its previous token until that expires.
            stopExpecting();
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
        stopExpecting();
        flush();
    }

    private void limited(WatchRequest refused, PausewatchException error) {
        long wait = error instanceof LimitExceededException limit
                ? Nanos.of(limit.retryAfter().orElse(RETRY_AFTER))
                : Nanos.of(RETRY_AFTER);
        if (refused.getAddCount() > 0) {
            requests.delayAdditions(timer.now() + wait);
            List<String> news = refused.getAddList().stream()
                    .filter(threadId -> members.contains(threadId) && limited.add(threadId))
                    .toList();
            if (!news.isEmpty()) {
                listener.refused(news, error);
            }
        }
        // Set after the time for additions: a timer that fired before that time would send no additions, and no other
        // timer follows.
        timer.in(wait, () -> {
            refused.getConfirmList().forEach(this::confirm);
            flush();
        });
    }

    private boolean isWatched(String threadId) {
        return all || members.contains(threadId);
    }

    @Override
    public void broken(PausewatchException error, long silentFor, boolean awaitsAnswer) {
        if (awaitsAnswer) {
            confirmationTimeout = Math.min(2 * confirmationTimeout, MAX_CONFIRMATION_TIMEOUT);
        }
        // A slow answer is no reason to move the whole client, unless the next stream has none either; every replica
        // would send the same refusal.
        boolean slow = awaitsAnswer && answered;
        boolean leaves =
                stream != null && !slow && error instanceof UnavailableException && connection.moveOn(stream.moves());
        if (leaves) {
            unanswered++;
        }
        stream = null;
        request = null;
        token.end();
        if (move.end()) {
            notBefore = timer.now();
        } else if (leaves && unanswered % connection.addresses() != 0) {
            notBefore = timer.now() + Backoff.jittered(TimeUnit.MILLISECONDS.toNanos(FIRST_RETRY_DELAY_MS));
        } else {
            // Also after a stream that worked: the clients of a restarted server must not all reconnect at once.
            notBefore = timer.now() + retryDelays.next();
        }
        if (error instanceof LimitExceededException limit) {
            limitedUntil = timer.now() + Nanos.of(limit.retryAfter().orElse(Duration.ZERO));
        }
        requests.allowAll();
        List<String> lost = List.copyOf(members);
        if (disconnectReported) {
            listener.disconnectedAgain(lost);
        } else {
            disconnectReported = true;
            listener.disconnected(lost, error, silentFor);
        }
        connect();
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
        limited.remove(threadId);
        requests.remove(threadId);
        if (members.isEmpty()) {
            drop();
        } else {
            flushSoon();
        }
    }

    private boolean needsStream() {
        return !closed && stream == null && (all || !members.isEmpty());
    }

    /** Opens a stream after the retry delay. */
    private void connect() {
        next.cancel();
        if (!needsStream()) {
            return;
        }
        long wait = Math.max(0, notBefore - timer.now());
        if (requests.isConfirming() && wait > 2 * MAX_CONFIRMATION_DELAY) {
            wait = Backoff.jittered(MAX_CONFIRMATION_DELAY);
            notBefore = timer.now() + wait;
        }
        next = timer.in(Math.max(wait, limitedUntil - timer.now()), this::open);
    }

    private void open() {
        CompletableFuture<Optional<String>> asked = connection.askToken();
        if (asked.isDone()) {
            open(asked);
        } else if (!asking) {
            asking = true;
            asked.whenCompleteAsync(
                    (known, noToken) -> {
                        asking = false;
                        open(asked);
                    },
                    timer);
        }
    }

    private void open(CompletableFuture<Optional<String>> asked) {
        if (!needsStream()) {
            return;
        }
        requests.restart(all ? listener.unknown() : members, timer.now());
        answered = false;
        complete = false;
        Optional<String> first;
        try {
            first = asked.join();
        } catch (CompletionException noToken) {
            broken(connection.failure(noToken.getCause()), 0, false);
            return;
        }
        token.begin(first);
        WatchStream opened = new WatchStream(connection, timer, this);
        try {
            opened.open(firstAnswer, first);
        } catch (RuntimeException thrown) {
            // Thrown by an interceptor of the program.
            opened.cancel();
            broken(Failure.made(Status.UNKNOWN, "the stream could not be opened: " + thrown, thrown), 0, false);
            return;
        }
        stream = opened;
        move.begin(opened);
        if (requests.isConfirming()) {
            expectAnswer();
        }
        if (setup.equals(WatchRequest.getDefaultInstance())) {
            flush();
        } else {
            send(setup);
        }
    }

    /** Limits the silence of the stream, because a timeout waits for an answer. */
    private void expectAnswer() {
        stream.expectAnswer(answered ? confirmationTimeout : Math.max(confirmationTimeout, FIRST_ANSWER_TIMEOUT));
    }

    private void stopExpecting() {
        if (stream != null && !requests.isConfirming() && (request == null || request.getConfirmCount() == 0)) {
            stream.stopExpecting();
        }
    }

    private void drop() {
        next.cancel();
        token.end();
        move.stop();
        disconnectReported = false;
        requests.stop();
        if (stream != null) {
            stream.cancel();
            stream = null;
            request = null;
        }
    }

    /** Sends the next request after the tasks that are due now, so that their changes share it. */
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
        // Sent alone: if it is refused, nothing else must be sent again.
        Optional<String> renewed = answered ? token.takeNew() : Optional.empty();
        if (renewed.isPresent()) {
            send(WatchRequest.newBuilder().setToken(renewed.get()).build());
            return;
        }
        requests.next(timer.now(), answered).ifPresent(this::send);
    }

    private void send(WatchRequest sent) {
        request = sent;
        sentAt = timer.now();
        if (sent.getConfirmCount() > 0) {
            listener.asked(sent.getConfirmList(), sentAt);
            stream.stopExpecting();
            expectAnswer();
        }
        stream.send(sent);
    }
}
