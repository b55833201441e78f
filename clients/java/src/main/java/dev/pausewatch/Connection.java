package dev.pausewatch;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/**
 * One channel, whose reconnecting follows our rhythm: after a failure the channel by itself would wait up to two minutes, and refuse every call
 * until then.
 */
final class Connection {
    private final ManagedChannel channel;
    /** The token of a call, where it comes from a source. */
    static final CallOptions.Key<String> TOKEN = CallOptions.Key.create("pausewatch-token");

    private final String address;
    private final Optional<Supplier<String>> tokens;
    /** The calls that somebody waits for. */
    private final Set<CompletableFuture<?>> calls = ConcurrentHashMap.newKeySet();

    /** {@code address}: where the channel leads to, for errors. */
    Connection(ManagedChannel channel, String address) {
        this(channel, address, Optional.empty());
    }

    /** {@code tokens}: where they come from, if there may be another one later. */
    Connection(ManagedChannel channel, String address, Optional<Supplier<String>> tokens) {
        this.channel = channel;
        this.address = address;
        this.tokens = tokens;
    }

    /**
     * The token for the next call, as it is now; empty: it never changes.
     *
     * @throws UnauthenticatedException there should be one, and is not
     */
    Optional<String> nextToken() {
        return tokens.map(Tokens::ask);
    }

    static CallOptions with(Optional<String> token, CallOptions options) {
        return token.map(given -> options.withOption(TOKEN, given)).orElse(options);
    }

    /** What a call on it ended with. */
    PausewatchException failure(Throwable thrown) {
        return Failure.of(thrown, address);
    }

    /** The channel for one attempt: if the last one to connect failed, it is tried anew, and the attempt learns what comes of that. */
    Channel channel() {
        if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
            channel.enterIdle();
        }
        return channel;
    }

    /** The connection may be dead: attempts from now on get another one; calls that are under way go on. */
    void leave() {
        channel.enterIdle();
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
        return channel.isShutdown();
    }

    void close() {
        channel.shutdownNow();
        calls.forEach(Connection::end);
    }

    private static void end(CompletableFuture<?> call) {
        call.completeExceptionally(Failure.made(Status.UNAVAILABLE, "the client was closed during the call", null));
    }
}
