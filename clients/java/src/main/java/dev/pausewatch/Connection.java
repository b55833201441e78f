package dev.pausewatch;

import io.grpc.Channel;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;

/**
 * One channel, whose reconnecting follows our rhythm: after a failure the channel by itself would wait up to two minutes, and refuse every call
 * until then.
 */
final class Connection {
    private final ManagedChannel channel;
    private final String address;
    /** The calls that somebody waits for. */
    private final Set<CompletableFuture<?>> calls = ConcurrentHashMap.newKeySet();

    /** {@code address}: where the channel leads to, for errors. */
    Connection(ManagedChannel channel, String address) {
        this.channel = channel;
        this.address = address;
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
