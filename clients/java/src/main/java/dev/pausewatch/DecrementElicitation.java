package dev.pausewatch;

import java.util.Optional;

/**
 * A call that closes one elicitation.
 *
 * @param threadId the thread
 * @param elicitationId the elicitation to close, 1 to 64 bytes; empty: the oldest open one whose increment asked for no ttl, else the oldest
 * @param requestId names this call, so that it counts once however often it is sent: up to 128 bytes; empty: a random one
 */
public record DecrementElicitation(String threadId, Optional<String> elicitationId, String requestId) {

    /** Closes the oldest elicitation of {@code threadId} that was opened without a ttl, else the oldest. */
    public static DecrementElicitation of(String threadId) {
        return new DecrementElicitation(threadId, Optional.empty(), "");
    }

    /** The same call for exactly this elicitation. */
    public DecrementElicitation withElicitationId(String elicitationId) {
        return new DecrementElicitation(threadId, Optional.of(elicitationId), requestId);
    }

    /** The same call under this request id. */
    public DecrementElicitation withRequestId(String requestId) {
        return new DecrementElicitation(threadId, elicitationId, requestId);
    }
}
