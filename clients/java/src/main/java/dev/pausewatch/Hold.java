package dev.pausewatch;

import java.time.Duration;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * An open elicitation, which pauses its thread. Created by {@link Client#hold}; renewed in the background until it is released or
 * closed.
 *
 * <pre>{@code
 * try (Hold hold = client.hold("thread-1").reason("Push to production?").open()) {
 *     if (ask()) push();
 * } catch (ElicitationExpiredException late) {
 *     // The answer came after the lease had ended: commands of the thread may have timed out.
 * }
 * }</pre>
 *
 * <p>1. The interval between two renewals is ttl/3, so two may fail before the lease ends. Renewals continue until the server
 * reports that the elicitation is closed: after a downtime, a server gives every lease one full ttl again.
 *
 * <p>2. All decrements of one hold have the same request id: however often a release is attempted, it counts once and always
 * returns the first result.
 *
 * <p>3. The lease bounds the effect of every failure here.
 */
public final class Hold implements AutoCloseable {
    private static final Optional<CompletableFuture<Ending>> NOT_OPEN =
            Optional.of(CompletableFuture.completedFuture(new Ending.NotOpen()));

    private final Core core;
    private final Calls.RetryPolicy policy;
    private final Duration ttl;
    private final Optional<RuntimeException> failure;
    /** The opened elicitation; empty: the hold could not be opened. */
    private final Optional<Opened> open;
    /** The release that is under way or has succeeded. Guarded by this hold. */
    private Optional<CompletableFuture<Ending>> ending;

    /** An elicitation that was opened, what keeps it alive, and the call that closes it. */
    private record Opened(IncrementResult result, Renewal renewal, DecrementElicitation decrement) {}

    Hold(Core core, Calls.RetryPolicy policy, String threadId, Duration ttl, long sent, IncrementResult opened) {
        this.core = core;
        this.policy = policy;
        this.ttl = ttl;
        failure = Optional.empty();
        ending = Optional.empty();
        String elicitationId = opened.elicitation().elicitationId();
        RenewElicitation renew = RenewElicitation.of(threadId, elicitationId);
        Renewal renewal = core.opened(ended -> new Renewal(
                core.timer(), ttl, sent, attempt -> core.calls().renew(renew, policy.atMost(attempt)), ended));
        renewal.start();
        DecrementElicitation decrement = DecrementElicitation.of(threadId)
                .withElicitationId(elicitationId)
                .withRequestId(UUID.randomUUID().toString());
        open = Optional.of(new Opened(opened, renewal, decrement));
    }

    /** A best-effort hold that could not be opened. */
    Hold(Core core, Calls.RetryPolicy policy, Duration ttl, RuntimeException failure) {
        this.core = core;
        this.policy = policy;
        this.ttl = ttl;
        this.failure = Optional.of(failure);
        open = Optional.empty();
        ending = NOT_OPEN;
    }

    /**
     * Why a best-effort hold could not be opened; empty: it was opened. If another attempt might succeed, the thread may be paused
     * all the same, if only the answer was lost: until the lease ends.
     */
    public Optional<RuntimeException> failure() {
        return failure;
    }

    /**
     * The elicitation as it was opened.
     *
     * @throws IllegalStateException a best-effort hold could not be opened: see {@link #failure()}
     */
    public Elicitation elicitation() {
        return opened().elicitation();
    }

    /**
     * The result of the increment.
     *
     * @throws IllegalStateException a best-effort hold could not be opened: see {@link #failure()}
     */
    public IncrementResult opened() {
        return open.orElseThrow(() ->
                        new IllegalStateException("this best-effort hold could not be opened", failure.orElseThrow()))
                .result();
    }

    /** The current state of the lease, as far as it is known. */
    public Lease lease() {
        return open.map(opened -> opened.renewal().lease()).orElse(Lease.NOT_OPEN);
    }

    /**
     * Completes with the state of the lease when it is not {@link Lease#HELD} any more; after a release of this hold with {@link
     * Lease#RELEASED}. A lease that is only {@link Lease#OVERDUE} may become held again: call this again for the next loss. Each
     * call returns its own future.
     */
    public CompletableFuture<Lease> lost() {
        return open.map(opened -> opened.renewal().lost())
                .orElseGet(() -> CompletableFuture.completedFuture(Lease.NOT_OPEN));
    }

    /**
     * Closes the elicitation, and returns whether it was open until now. Calling it again is harmless and returns the same.
     *
     * <p>If the waiting thread is interrupted, it throws {@link OtherException}; the release continues.
     *
     * @throws LimitExceededException it may still be open, and is still renewed; call again, or {@link #close()}
     * @throws StoreUnavailableException it may still be open, and is still renewed; call again, or {@link #close()}
     * @throws UnavailableException it may still be open, and is still renewed; call again, or {@link #close()}
     * @throws DeadlineExceededException it may still be open, and is still renewed; call again, or {@link #close()}
     * @throws IllegalStateException the client is closed: it is not renewed any more, and its lease ends it
     */
    public Ending release() {
        return Calls.await(releasing().copy());
    }

    /**
     * As {@link #release()}, without waiting. The future completes on a thread of this library, where code may block; it fails
     * with the exceptions of {@link #release()}. Cancelling it does not end the release.
     */
    public CompletableFuture<Ending> releaseAsync() {
        return AsyncClient.handedOn(releasing().copy());
    }

    /**
     * Releases at the end of a {@code try} block. Nothing is thrown if the elicitation was open until now, was closed by another
     * caller's decrement, or is unknown to the server. Calling it again is harmless and has the same result.
     *
     * @throws ElicitationExpiredException the lease had ended before: the answer came too late. If the block itself threw, its
     *     exception is thrown, with this one as suppressed
     * @throws PausewatchException as from {@link #release()}: it is unknown whether the answer came in time. The elicitation is
     *     not renewed any more, and attempts to close it continue in the background until the lease has ended
     * @throws IllegalStateException the client is closed: its lease ends it
     */
    @Override
    public void close() {
        try {
            if (release() instanceof Ending.Expired late) {
                throw late.error();
            }
        } catch (ElicitationExpiredException late) {
            throw late;
        } catch (RuntimeException unsettled) {
            abandon();
            throw unsettled;
        }
    }

    /** Stops the renewals, and continues the release in the background: after one ttl nothing is left to close. */
    CompletableFuture<?> abandon() {
        if (open.isEmpty()) {
            return CompletableFuture.completedFuture(null);
        }
        Renewal renewal = open.get().renewal();
        renewal.stopRenewing();
        // The retries of the client bound how long a caller waits; nobody waits here.
        return decrement(open.get(), new Calls.RetryPolicy(ttl, Integer.MAX_VALUE))
                .whenComplete((known, unsettled) -> renewal.close());
    }

    private synchronized CompletableFuture<Ending> releasing() {
        if (ending.isEmpty() || ending.get().isCompletedExceptionally()) {
            ending = Optional.of(decrement(open.orElseThrow(), policy));
        }
        return ending.get();
    }

    private CompletableFuture<Ending> decrement(Opened opened, Calls.RetryPolicy policy) {
        return core.finishing(() -> Calls.detached(() -> core.calls().decrement(opened.decrement(), policy))
                .handle(Hold::ending)
                .whenComplete((known, unsettled) -> {
                    if (unsettled == null) {
                        opened.renewal().stop(lease(known));
                    }
                }));
    }

    private static Ending ending(@Nullable DecrementResult closed, @Nullable Throwable refused) {
        if (refused == null && closed != null) {
            return new Ending.Closed(closed.count(), closed.revision());
        } else if (refused instanceof ElicitationExpiredException expired) {
            return new Ending.Expired(expired);
        } else if (refused instanceof ElicitationReleasedException) {
            return new Ending.Released();
        } else if (refused instanceof ElicitationUnknownException) {
            return new Ending.Unknown();
        } else if (refused instanceof RuntimeException unsettled) {
            throw unsettled;
        }
        throw new IllegalStateException(refused);
    }

    private static Lease lease(Ending ending) {
        if (ending instanceof Ending.Expired) {
            return Lease.EXPIRED;
        }
        return ending instanceof Ending.Unknown ? Lease.UNKNOWN : Lease.RELEASED;
    }
}
