package dev.pausewatch;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/**
 * The calls of a {@link Client} as futures. Made by {@link Client#async()}.
 *
 * <p>A future completes on a thread of this library, where code may block, exceptionally with what the method of
 * {@link Client} of the same name throws. Cancelling it ends the call; the outcome is then unknown.
 */
public final class AsyncClient {
    private final Calls calls;
    private final Calls.RetryPolicy policy;

    AsyncClient(Calls calls, Calls.RetryPolicy policy) {
        this.calls = calls;
        this.policy = policy;
    }

    /**
     * As {@link Client#incrementElicitation}. If the future is cancelled after the request was sent, the elicitation
     * may be open; its lease bounds it.
     */
    public CompletableFuture<IncrementResult> incrementElicitation(IncrementElicitation call) {
        return handedOn(calls.increment(call, policy));
    }

    /** As {@link Client#decrementElicitation}. */
    public CompletableFuture<DecrementResult> decrementElicitation(DecrementElicitation call) {
        return handedOn(calls.decrement(call, policy));
    }

    /** As {@link Client#renewElicitation}. */
    public CompletableFuture<Elicitation> renewElicitation(RenewElicitation call) {
        return handedOn(calls.renew(call, policy));
    }

    /** As {@link Client#getPauseState}. */
    public CompletableFuture<PauseState> getPauseState(String threadId) {
        return handedOn(calls.get(threadId, policy));
    }

    /** As {@link Client#listPauseStates}. */
    public CompletableFuture<PauseStatePage> listPauseStates(ListPauseStates call) {
        return handedOn(calls.list(call, policy));
    }

    /** As {@link Client#listPauses}. */
    public CompletableFuture<PausePage> listPauses(ListPauses call) {
        return handedOn(calls.listPauses(call, policy));
    }

    /** A future that completes with the same result, but on a thread of {@link Callbacks}, not of the transport. */
    static <T> CompletableFuture<T> handedOn(CompletableFuture<T> answer) {
        CompletableFuture<T> theirs = new CompletableFuture<>();
        answer.whenCompleteAsync(
                (value, thrown) -> {
                    if (thrown == null) {
                        theirs.complete(value);
                    } else {
                        // A release is a step after its call, and its exception is wrapped.
                        theirs.completeExceptionally(
                                thrown instanceof CompletionException step ? step.getCause() : thrown);
                    }
                },
                Callbacks.EXECUTOR);
        theirs.whenComplete((value, thrown) -> {
            if (theirs.isCancelled()) {
                answer.cancel(false);
            }
        });
        return theirs;
    }
}
