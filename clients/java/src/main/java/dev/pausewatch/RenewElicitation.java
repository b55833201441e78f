package dev.pausewatch;

import java.time.Duration;
import java.util.Optional;

/**
 * A call that extends the lease of one elicitation; calling it again is harmless.
 *
 * @param threadId the thread
 * @param elicitationId the open elicitation
 * @param ttl the new length of the lease from now, 1 s to 24 h; empty: the length that it has
 */
public record RenewElicitation(String threadId, String elicitationId, Optional<Duration> ttl) {

    /** Extends the lease by the length that it has. */
    public static RenewElicitation of(String threadId, String elicitationId) {
        return new RenewElicitation(threadId, elicitationId, Optional.empty());
    }

    /** The same call with a lease of this length. */
    public RenewElicitation withTtl(Duration ttl) {
        return new RenewElicitation(threadId, elicitationId, Optional.of(ttl));
    }
}
