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
 * The channel to one replica. It reconnects after the retry delays of this library: by itself, gRPC's channel would
 * wait up to two minutes after a failure, and refuse every call until then.
 *
 * <p>1. A client uses one channel at a time for everything: a move to another address moves the whole client.
 *
 * <p>2. If several calls fail at one replica, the client moves once: a move names the position that it leaves.
 *
 * <p>3. With one address the client never moves.
 */
final class Connection {
    /** How long a replica may take to answer before the client moves to the next one: longer than a takeover. */
    static final long ANSWER_TIMEOUT_NANOS = TimeUnit.MILLISECONDS.toNanos(1_500);

    private static final System.Logger LOG = System.getLogger(Connection.class.getName());

    private final List<Supplier<ManagedChannel>> replicas;
    private volatile Position now;
    /** The channels to addresses that the client has left; they end with their last calls. */
    private final List<ManagedChannel> left = new ArrayList<>();

    private final Set<Runnable> listeners = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;
    /** The call option for the token of a call, if the token comes from a source. */
    static final CallOptions.Key<String> TOKEN = CallOptions.Key.create("pausewatch-token");

    private final String address;
    private final Optional<Supplier<String>> tokens;
    /** Calls the token source, which may block. */
    private final Executor asking;
    /** The latest call of the token source; until it returns, all callers share it. */
    private CompletableFuture<Optional<String>> asked = CompletableFuture.completedFuture(Optional.empty());
    /** Whether the source has failed, as was logged, and has not worked since. */
    private volatile boolean tokenFailed;
    /** The calls under way. */
    private final Set<CompletableFuture<?>> calls = ConcurrentHashMap.newKeySet();

    /**
     * The address that the client uses now.
     *
     * @param moves the number of moves so far
     */
    record Position(int moves, ManagedChannel channel) {}

    /** {@code address}: the address of the channel, for errors. */
    Connection(ManagedChannel channel, String address) {
        this(List.of(() -> channel), address, Optional.empty(), Runnable::run);
    }

    /**
     * {@code replicas}: each opens the channel to one replica; {@code tokens}: the token source, if the token may
     * change; {@code asking}: the executor that calls the token source.
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

    /**
     * The current token, for the next call; empty: the token never changes. Fails if the source returns no valid token.
     */
    synchronized CompletableFuture<Optional<String>> askToken() {
        if (tokens.isPresent() && asked.isDone()) {
            CompletableFuture<Optional<String>> next = new CompletableFuture<>();
            asked = next;
            asking.execute(() -> {
                try {
                    String token = Tokens.ask(tokens.get());
                    tokenFailed = false;
                    next.complete(Optional.of(token));
                } catch (Throwable noToken) {
                    next.completeExceptionally(noToken);
                }
            });
            return next;
        }
        return asked;
    }

    /** Logs why the token of an open stream is not replaced: once, until the source works again. */
    void tokenFailed(Throwable noToken) {
        if (!tokenFailed) {
            tokenFailed = true;
            LOG.log(System.Logger.Level.WARNING, "the token cannot be renewed", noToken);
        }
    }

    static CallOptions with(Optional<String> token, CallOptions options) {
        return token.map(given -> options.withOption(TOKEN, given)).orElse(options);
    }

    /** The error of a call on this connection that ended with {@code thrown}. */
    PausewatchException failure(Throwable thrown) {
        return Failure.of(thrown, address);
    }

    /** The error of an attempt that had no answer. */
    PausewatchException unavailable(String problem, Throwable cause) {
        return Failure.made(Status.UNAVAILABLE, address + ": " + problem, cause);
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

    /**
     * The channel for one attempt. If the last connect failed, the channel connects again at once, and the attempt gets
     * the result.
     */
    static Channel ready(Position position) {
        if (position.channel().getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
            position.channel().enterIdle();
        }
        return position.channel();
    }

    /**
     * Moves to the next address, unless the client has moved since {@code moves} was read. Returns false if there is
     * only one address.
     */
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
                // Thrown by the program's own customizer of channels. The call continues at the present address.
                LOG.log(System.Logger.Level.ERROR, "cannot create a channel to the next replica", thrown);
                return true;
            }
            left.removeIf(ManagedChannel::isTerminated);
            left.add(before);
            before.shutdown();
        }
        listeners.forEach(Runnable::run);
        return true;
    }

    /** Runs {@code listener} after each move, on any thread. */
    void onMove(Runnable listener) {
        listeners.add(listener);
    }

    /** Removes a listener of {@link #onMove}. */
    void forget(Runnable listener) {
        listeners.remove(listener);
    }

    /**
     * Makes later attempts at {@code position} open a new connection, because the present one may be dead. Calls under
     * way continue.
     */
    static void leave(Position position) {
        position.channel().enterIdle();
    }

    /** Ends {@code call} when this connection is closed, whatever the call waits for at that moment. */
    void endWithThis(CompletableFuture<?> call) {
        calls.add(call);
        call.whenComplete((answer, thrown) -> calls.remove(call));
        // Checked after the call was added: a close either finds the call in the set, or is noticed here.
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
