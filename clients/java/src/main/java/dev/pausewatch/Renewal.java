package dev.pausewatch;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * Renews one lease, from the timer's thread, and keeps its state.
 *
 * <p>1. It renews ttl/3 after the last renewal was sent, and retries after a failure, until the server reports that the
 * elicitation is closed, or it is stopped.
 *
 * <p>2. One ttl after the last answer at the latest, the lease has ended as far as is known: overdue.
 *
 * <p>3. The state of a lease that has ended, as reported by the server or by a stop, does not change any more. Closed with its
 * client it stays overdue, because no renewal follows.
 */
final class Renewal implements AutoCloseable {
    private static final long LONGEST_PAUSE = TimeUnit.SECONDS.toNanos(2);
    private static final long FIRST_PAUSE = TimeUnit.MILLISECONDS.toNanos(100);

    private final Timer timer;
    private final long ttl;
    private final Function<Duration, CompletableFuture<Elicitation>> renew;
    private final Runnable onEnd;
    private final Backoff pauses;
    private Timer.Alarm next = Timer.Alarm.NONE;
    private Timer.Alarm overdue = Timer.Alarm.NONE;
    /** When the last call that succeeded was sent. */
    private long sent;

    /** Guarded by this renewal, as is what follows. */
    private Lease lease = Lease.HELD;

    private boolean ended;
    /** Whether the lease is still to be renewed. */
    private boolean renewing = true;

    private final List<CompletableFuture<Lease>> waiting = new ArrayList<>();

    /**
     * @param opened when the increment was sent
     * @param renew makes one call that takes at most the given time
     * @param onEnd is called once, when the lease has ended
     */
    Renewal(
            Timer timer,
            Duration ttl,
            long opened,
            Function<Duration, CompletableFuture<Elicitation>> renew,
            Runnable onEnd) {
        this.timer = timer;
        this.ttl = Nanos.of(ttl);
        this.renew = renew;
        this.onEnd = onEnd;
        // A pause may become twice as long at random. After an outage the lease must be renewed before the
        // server, which gives it its full ttl again, ends it.
        this.pauses = Backoff.ofNanos(Math.min(this.ttl / 30, FIRST_PAUSE), Math.min(this.ttl / 6, LONGEST_PAUSE));
        this.sent = opened;
    }

    void start() {
        timer.execute(this::renewed);
    }

    synchronized Lease lease() {
        return lease;
    }

    synchronized CompletableFuture<Lease> lost() {
        CompletableFuture<Lease> lost = new CompletableFuture<>();
        if (lease != Lease.HELD) {
            lost.complete(lease);
        } else {
            waiting.removeIf(CompletableFuture::isDone);
            waiting.add(lost);
        }
        return lost;
    }

    /** Stops the renewals. Only the end of the lease is still reported. */
    void stopRenewing() {
        synchronized (this) {
            renewing = false;
        }
        timer.execute(() -> next.cancel());
    }

    /**
     * Stops the renewals. The state of the lease becomes {@code as}, unless the lease is known to have ended before.
     */
    void stop(Lease as) {
        become(as, true);
        timer.execute(this::cancelAlarms);
    }

    @Override
    public void close() {
        stop(Lease.OVERDUE);
    }

    private void renewed() {
        if (hasEnded()) {
            return;
        }
        pauses.reset();
        become(Lease.HELD, false);
        cancelAlarms();
        overdue = timer.in(ttl, () -> become(Lease.OVERDUE, false));
        if (isRenewing()) {
            next = timer.in(Math.max(0, sent + ttl / 3 - timer.now()), this::attempt);
        }
    }

    private void attempt() {
        if (!isRenewing()) {
            return;
        }
        long began = timer.now();
        renew.apply(Duration.ofNanos(ttl / 3)).whenCompleteAsync((renewed, thrown) -> answered(began, thrown), timer);
    }

    private void answered(long began, Throwable thrown) {
        if (thrown == null) {
            sent = began;
            renewed();
        } else if (thrown instanceof ElicitationExpiredException) {
            stop(Lease.EXPIRED);
        } else if (thrown instanceof ElicitationReleasedException) {
            stop(Lease.RELEASED);
        } else if (thrown instanceof ElicitationUnknownException) {
            stop(Lease.UNKNOWN);
        } else if (isRenewing()) {
            next = timer.in(pauses.next(), this::attempt);
        }
    }

    private void become(Lease now, boolean end) {
        List<CompletableFuture<Lease>> notified = List.of();
        synchronized (this) {
            if (ended) {
                return;
            }
            ended = end;
            lease = now;
            if (now != Lease.HELD) {
                notified = List.copyOf(waiting);
                waiting.clear();
            }
        }
        // User code must not run on this thread.
        notified.forEach(lost -> lost.completeAsync(() -> now, Callbacks.EXECUTOR));
        if (end) {
            onEnd.run();
        }
    }

    private synchronized boolean hasEnded() {
        return ended;
    }

    private synchronized boolean isRenewing() {
        return renewing && !ended;
    }

    private void cancelAlarms() {
        next.cancel();
        overdue.cancel();
    }
}
