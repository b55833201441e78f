package dev.pausewatch;

import io.grpc.Status;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/**
 * An open elicitation, which pauses its thread. Made by {@link Client#hold}; renewed in the background until it is released or closed.
 *
 * <pre>{@code
 * try (Hold hold = client.hold("thread-1").reason("Push to production?").open()) {
 *     if (ask()) push();
 * } catch (ElicitationExpiredException late) {
 *     // The answer came after the lease had ended: commands of the thread may have timed out.
 * }
 * }</pre>
 *
 * <p>1. Renewals go out at a third of the ttl, so two may fail before the lease ends. They go on until the server says that the elicitation is
 * closed: a server that was away gives every lease one full ttl again.
 *
 * <p>2. All decrements of one hold carry one request id: however often a release is tried, it counts once and its answer is the first one.
 *
 * <p>3. What fails here is bounded by the lease.
 */
public final class Hold implements AutoCloseable {
    private final Core core;
    private final Calls.Patience patience;
    private final Duration ttl;
    private final IncrementResult opened;
    private final Renewal renewal;
    private final DecrementElicitation decrement;
    /** The release that is under way or has succeeded. Guarded by this hold. */
    private CompletableFuture<Ending> ending;

    Hold(Core core, Calls.Patience patience, String threadId, Duration ttl, long sent, IncrementResult opened) {
        this.core = core;
        this.patience = patience;
        this.ttl = ttl;
        this.opened = opened;
        String elicitationId = opened.elicitation().elicitationId();
        RenewElicitation renew = RenewElicitation.of(threadId, elicitationId).withTtl(ttl);
        renewal = core.opened(ended -> new Renewal(
                core.timer(), ttl, sent, attempt -> core.calls().renew(renew, patience.atMost(attempt)), ended));
        renewal.start();
        decrement = DecrementElicitation.of(threadId)
                .withElicitationId(elicitationId)
                .withRequestId(UUID.randomUUID().toString());
    }

    /** The elicitation as it was opened. */
    public Elicitation elicitation() {
        return opened.elicitation();
    }

    /** What the increment made of the thread. */
    public IncrementResult opened() {
        return opened;
    }

    /** What is known of the lease now. */
    public Lease lease() {
        return renewal.lease();
    }

    /**
     * Completes when the lease is not {@link Lease#HELD} any more, with what it is: {@link Lease#RELEASED} after a release of our own. While it is
     * only {@link Lease#OVERDUE} it may come back; ask again to see. Each call returns a future of its own.
     */
    public CompletableFuture<Lease> lost() {
        return renewal.lost();
    }

    /**
     * Closes the elicitation, and says whether it was open until now. Calling it again is harmless and says the same.
     *
     * <p>A thread that is interrupted while it waits ends with {@link OtherException}; the release goes on.
     *
     * @throws LimitExceededException it may still be open, and is still renewed; call again, or {@link #close()}
     * @throws StoreUnavailableException it may still be open, and is still renewed; call again, or {@link #close()}
     * @throws UnavailableException it may still be open, and is still renewed unless the client is closed; call again, or {@link #close()}
     * @throws DeadlineExceededException it may still be open, and is still renewed; call again, or {@link #close()}
     */
    public Ending release() {
        return Calls.await(releasing().copy());
    }

    /**
     * Releases at the end of a {@code try} block. Nothing is thrown if the elicitation was open until now, or was closed by another caller's
     * decrement, or is unknown. Calling it again is harmless and says the same.
     *
     * @throws ElicitationExpiredException the lease had ended before: the answer came too late. If the block itself threw, that is what comes out,
     *     with this as suppressed
     * @throws PausewatchException as from {@link #release()}: whether the answer came in time is not known. It is not renewed any more, and the
     *     release is tried in the background until the lease is over
     */
    @Override
    public void close() {
        try {
            if (release() instanceof Ending.Expired late) {
                throw late.error();
            }
        } catch (ElicitationExpiredException late) {
            throw late;
        } catch (PausewatchException unsettled) {
            abandon();
            throw unsettled;
        }
    }

    /** Stops to renew, and goes on releasing in the background: after one ttl there is nothing left to close. */
    void abandon() {
        renewal.stop(Lease.RELEASED);
        decrement(patience.withDeadline(ttl));
    }

    private synchronized CompletableFuture<Ending> releasing() {
        if (ending == null || ending.isCompletedExceptionally()) {
            ending = decrement(patience).handle(Hold::ending).whenComplete((known, unsettled) -> {
                if (unsettled == null) {
                    renewal.stop(lease(known));
                }
            });
        }
        return ending;
    }

    private CompletableFuture<DecrementResult> decrement(Calls.Patience patience) {
        return Calls.detached(() -> core.calls().decrement(decrement, patience));
    }

    private static Ending ending(DecrementResult closed, Throwable refused) {
        if (refused == null) {
            return new Ending.Closed(closed.count(), closed.revision());
        } else if (refused instanceof ElicitationExpiredException expired) {
            return new Ending.Expired(expired);
        } else if (refused instanceof ElicitationReleasedException) {
            return new Ending.Released();
        } else if (refused instanceof ElicitationUnknownException) {
            return new Ending.Unknown();
        } else if (refused instanceof PausewatchException unsettled) {
            throw unsettled;
        }
        // The client is closed.
        throw Failure.made(Status.UNAVAILABLE, String.valueOf(refused.getMessage()), refused);
    }

    private static Lease lease(Ending ending) {
        if (ending instanceof Ending.Expired) {
            return Lease.EXPIRED;
        }
        return ending instanceof Ending.Unknown ? Lease.UNKNOWN : Lease.RELEASED;
    }
}
