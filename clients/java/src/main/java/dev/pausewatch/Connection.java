package dev.pausewatch;

import io.grpc.Channel;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * One channel, whose reconnecting follows our rhythm: the channel by itself would wait up to two minutes, and refuse every call until then.
 */
final class Connection {
    /** How long an attempt waits for a connection that is being made after one that failed; then it learns why it cannot be made. */
    private static final long CONNECT_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

    private final ManagedChannel channel;
    private final Timer timer;
    /** Those who wait for the channel to leave TRANSIENT_FAILURE. On the timer's thread only. */
    private final Set<Runnable> waiting = new LinkedHashSet<>();

    private boolean watched;

    Connection(ManagedChannel channel, Timer timer) {
        this.channel = channel;
        this.timer = timer;
    }

    Channel channel() {
        return channel;
    }

    boolean isClosed() {
        return channel.isShutdown();
    }

    /** Whether the last attempt to connect failed: a call made now would fail for that, without trying again. */
    boolean isLost() {
        return channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE;
    }

    /**
     * On the timer's thread: connects at once if the connection is lost, and runs {@code attempt} when that has succeeded or has taken too
     * long, {@code most} nanoseconds at most.
     */
    void reach(long most, Runnable attempt) {
        channel.resetConnectBackoff();
        if (!isLost()) {
            attempt.run();
            return;
        }
        watchForRecovery();
        Runnable[] waiter = new Runnable[1];
        Timer.Alarm late = timer.in(Math.min(most, CONNECT_NANOS), () -> {
            if (waiting.remove(waiter[0])) {
                attempt.run();
            }
        });
        waiter[0] = () -> {
            late.cancel();
            attempt.run();
        };
        waiting.add(waiter[0]);
    }

    void close() {
        channel.shutdownNow();
    }

    /** One callback at a time, however often the channel is tried in vain: it keeps them until its state changes. */
    private void watchForRecovery() {
        if (watched) {
            return;
        }
        watched = true;
        channel.notifyWhenStateChanged(
                ConnectivityState.TRANSIENT_FAILURE,
                () -> timer.execute(() -> {
                    watched = false;
                    Set<Runnable> woken = new LinkedHashSet<>(waiting);
                    waiting.clear();
                    woken.forEach(Runnable::run);
                }));
    }
}
