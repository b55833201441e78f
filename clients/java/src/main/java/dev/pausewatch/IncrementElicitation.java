package dev.pausewatch;

import java.time.Duration;
import java.util.Optional;

/**
 * A call that opens one elicitation: {@code IncrementElicitation.of("thread-1").withTtl(Duration.ofMinutes(1))}.
 *
 * @param threadId the thread: 1 to 256 bytes of UTF-8 without control characters
 * @param requestId names this call, so that it counts once however often it is sent: up to 128 bytes; empty: a random one
 * @param reason what the person is asked, shown in lists and logs: up to 1,024 bytes
 * @param holder who asks: up to 256 bytes
 * @param ttl the lease, 1 s to 24 h; empty: the server's default
 */
public record IncrementElicitation(
        String threadId, String requestId, String reason, String holder, Optional<Duration> ttl) {

    /** Opens one elicitation on {@code threadId}, with nothing else said. */
    public static IncrementElicitation of(String threadId) {
        return new IncrementElicitation(threadId, "", "", "", Optional.empty());
    }

    /** The same call under this request id. */
    public IncrementElicitation withRequestId(String requestId) {
        return new IncrementElicitation(threadId, requestId, reason, holder, ttl);
    }

    /** The same call with this reason. */
    public IncrementElicitation withReason(String reason) {
        return new IncrementElicitation(threadId, requestId, reason, holder, ttl);
    }

    /** The same call with this holder. */
    public IncrementElicitation withHolder(String holder) {
        return new IncrementElicitation(threadId, requestId, reason, holder, ttl);
    }

    /** The same call with a lease of this length. */
    public IncrementElicitation withTtl(Duration ttl) {
        return new IncrementElicitation(threadId, requestId, reason, holder, Optional.of(ttl));
    }
}
