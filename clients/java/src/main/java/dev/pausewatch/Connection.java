package dev.pausewatch;

import io.grpc.Channel;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;

/**
 * One channel, whose reconnecting follows our rhythm: after a failure the channel by itself would wait up to two minutes, and refuse every call
 * until then.
 */
final class Connection {
    private final ManagedChannel channel;

    Connection(ManagedChannel channel) {
        this.channel = channel;
    }

    /** The channel for one attempt: if the last one to connect failed, it is tried anew, and the attempt learns what comes of that. */
    Channel channel() {
        if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
            channel.enterIdle();
        }
        return channel;
    }

    boolean isClosed() {
        return channel.isShutdown();
    }

    void close() {
        channel.shutdownNow();
    }
}
