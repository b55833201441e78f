package dev.pausewatch;

import java.util.concurrent.CompletableFuture;

/**
 * The calls of a {@link Client} as futures. Made by {@link Client#async()}.
 *
 * <p>A future completes on a thread of this library, where code may block, exceptionally with what the method of
 * {@link Client} of the same name throws. Who cancels it gives the call up; whether it counted is unknown then.
 */
public final class AsyncClient {
    private final Calls calls;
    private final Calls.Patience patience;

    AsyncClient(Calls calls, Calls.Patience patience) {
        this.calls = calls;
        this.patience = patience;
    }

    /** As {@link Client#incrementElicitation}. Cancelled after it was sent, the elicitation may be open; its lease bounds it. */
    public CompletableFuture<IncrementResult> incrementElicitation(IncrementElicitation call) {
        return handedOn(calls.increment(call, patience));
    }

    /** As {@link Client#decrementElicitation}. */
    public CompletableFuture<DecrementResult> decrementElicitation(DecrementElicitation call) {
        return handedOn(calls.decrement(call, patience));
    }

    /** As {@link Client#renewElicitation}. */
    public CompletableFuture<Elicitation> renewElicitation(RenewElicitation call) {
        return handedOn(calls.renew(call, patience));
    }

    /** As {@link Client#getPauseState}. */
    public CompletableFuture<PauseState> getPauseState(String threadId) {
        return handedOn(calls.get(threadId, patience));
    }

    /** As {@link Client#listPauseStates}. */
    public CompletableFuture<PauseStatePage> listPauseStates(ListPauseStates call) {
        return handedOn(calls.list(call, patience));
    }

    /** As {@link Client#listPauses}. */
    public CompletableFuture<PausePage> listPauses(ListPauses call) {
        return handedOn(calls.listPauses(call, patience));
    }

    /** The answer on a thread that is not the transport's. */
    static <T> CompletableFuture<T> handedOn(CompletableFuture<T> answer) {
        CompletableFuture<T> theirs = new CompletableFuture<>();
        answer.whenCompleteAsync(
                (value, thrown) -> {
                    if (thrown == null) {
                        theirs.complete(value);
                    } else {
                        theirs.completeExceptionally(thrown);
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
