package dev.pausewatch;

import io.grpc.Channel;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/**
 * One channel, whose reconnecting follows our rhythm: after a failure the channel by itself would wait up to two minutes, and refuse every call
 * until then.
 */
final class Connection {
    private final ManagedChannel channel;
    /** The calls that somebody waits for. */
    private final Set<CompletableFuture<?>> calls = ConcurrentHashMap.newKeySet();
    /** An attempt was unavailable since the last one began. */
    private volatile boolean wasUnavailable;

    Connection(ManagedChannel channel) {
        this.channel = channel;
    }

    /** The channel for a stream: if the last one to connect failed, it is tried anew, and the stream learns what comes of that. */
    Channel channel() {
        if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
            channel.enterIdle();
        }
        return channel;
    }

    /**
     * The channel for one attempt, as {@link #channel()}. Attempts learn of a failure before the channel has changed its state; {@code begin}
     * is therefore called by the channel, after that, and not with a failure from before.
     */
    void attempt(Consumer<Channel> begin) {
        boolean isStale = wasUnavailable && channel.getState(false) != ConnectivityState.READY;
        wasUnavailable = false;
        if (isStale) {
            channel.enterIdle();
            channel.notifyWhenStateChanged(ConnectivityState.TRANSIENT_FAILURE, () -> begin.accept(channel));
        } else {
            begin.accept(channel());
        }
    }

    /** An attempt has ended as unavailable. */
    void unavailable() {
        wasUnavailable = true;
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
