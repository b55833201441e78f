package dev.pausewatch;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * The channel to one replica, whose reconnecting follows our rhythm: after a failure the channel by itself would wait up to two minutes, and
 * refuse every call until then.
 *
 * <p>1. There is one channel at a time, for everything that a client does: what moves, moves everything.
 *
 * <p>2. Several callers that fail at one replica move once: a move names the position that it leaves.
 *
 * <p>3. With one address nothing ever moves.
 */
final class Connection {
    /** How long a replica may take to answer before the next one is asked: longer than a takeover. */
    static final long ANSWER_TIMEOUT_NANOS = TimeUnit.MILLISECONDS.toNanos(1_500);

    private static final System.Logger LOG = System.getLogger(Connection.class.getName());

    private final List<Supplier<ManagedChannel>> replicas;
    private volatile Position now;
    /** Channels that were left; they end with their last calls. */
    private final List<ManagedChannel> left = new ArrayList<>();

    private final Set<Runnable> listeners = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;
    /** The token of a call, where it comes from a source. */
    static final CallOptions.Key<String> TOKEN = CallOptions.Key.create("pausewatch-token");

    private final String address;
    private final Optional<Supplier<String>> tokens;
    /** Where the source is asked, which may block. */
    private final Executor asking;
    /** The question to the source; whoever asks before its answer shares it. */
    private CompletableFuture<Optional<String>> asked = CompletableFuture.completedFuture(Optional.empty());
    /** The calls that somebody waits for. */
    private final Set<CompletableFuture<?>> calls = ConcurrentHashMap.newKeySet();

    /**
     * Where the client is.
     *
     * @param moves how often it has moved
     */
    record Position(int moves, ManagedChannel channel) {}

    /** {@code address}: where the channel leads to, for errors. */
    Connection(ManagedChannel channel, String address) {
        this(List.of(() -> channel), address, Optional.empty(), Runnable::run);
    }

    /**
     * {@code replicas}: make the channel to each; {@code tokens}: where they come from, if there may be another one later; {@code asking}: where
     * that is asked.
     */
    Connection(
            List<Supplier<ManagedChannel>> replicas,
            String address,
            Optional<Supplier<String>> tokens,
            Executor asking) {
        this.replicas = replicas;
        this.now = new Position(0, replicas.get(0).get());
        this.address = address;
        this.tokens = tokens;
        this.asking = asking;
    }

    /** The token for the next call, as it is now; empty: it never changes. Fails if there should be one, and is not. */
    synchronized CompletableFuture<Optional<String>> askToken() {
        if (tokens.isPresent() && asked.isDone()) {
            CompletableFuture<Optional<String>> next = new CompletableFuture<>();
            asked = next;
            asking.execute(() -> {
                try {
                    next.complete(Optional.of(Tokens.ask(tokens.get())));
                } catch (Throwable noToken) {
                    next.completeExceptionally(noToken);
                }
            });
            return next;
        }
        return asked;
    }

    static CallOptions with(Optional<String> token, CallOptions options) {
        return token.map(given -> options.withOption(TOKEN, given)).orElse(options);
    }

    /** What a call on it ended with. */
    PausewatchException failure(Throwable thrown) {
        return Failure.of(thrown, address);
    }

    int addresses() {
        return replicas.size();
    }

    boolean several() {
        return replicas.size() > 1;
    }

    Position now() {
        return now;
    }

    /** The channel for one attempt: if the last one to connect failed, it is tried anew, and the attempt learns what comes of that. */
    static Channel ready(Position position) {
        if (position.channel().getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
            position.channel().enterIdle();
        }
        return position.channel();
    }

    /** Goes to the next address, unless that was done since the client had moved so often. False: there is no other. */
    boolean moveOn(int moves) {
        if (!several()) {
            return false;
        }
        synchronized (left) {
            if (closed || now.moves() != moves) {
                return true;
            }
            ManagedChannel before = now.channel();
            try {
                now = new Position(
                        moves + 1, replicas.get((moves + 1) % replicas.size()).get());
            } catch (RuntimeException thrown) {
                // Of the program, which customizes channels. Its caller is to go on here.
                LOG.log(System.Logger.Level.ERROR, "there is no channel to the next replica", thrown);
                return true;
            }
            left.removeIf(ManagedChannel::isTerminated);
            left.add(before);
            before.shutdown();
        }
        listeners.forEach(Runnable::run);
        return true;
    }

    /** Runs it after each move, on any thread. */
    void onMove(Runnable listener) {
        listeners.add(listener);
    }

    /** Stops running it. */
    void forget(Runnable listener) {
        listeners.remove(listener);
    }

    /** The connection of a position may be dead: attempts from now on get another one; calls that are under way go on. */
    static void leave(Position position) {
        position.channel().enterIdle();
    }

    /** Sees to it that a call ends when this connection is closed, whatever it is waiting for then. */
    void endWithThis(CompletableFuture<?> call) {
        calls.add(call);
        call.whenComplete((answer, thrown) -> calls.remove(call));
        // Looked at after it was added: a close either finds it, or is seen here.
        if (isClosed()) {
            end(call);
        }
    }

    boolean isClosed() {
        return now.channel().isShutdown();
    }

    void close() {
        synchronized (left) {
            closed = true;
            now.channel().shutdownNow();
            left.forEach(ManagedChannel::shutdownNow);
        }
        calls.forEach(Connection::end);
    }

    private static void end(CompletableFuture<?> call) {
        call.completeExceptionally(Failure.made(Status.UNAVAILABLE, "the client was closed during the call", null));
    }
}
