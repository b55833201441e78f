package dev.pausewatch;

/** The state of the lease of a {@link Hold}, as far as it is known. */
public enum Lease {
    /** The elicitation is open. */
    HELD,
    /**
     * No renewal succeeded for a whole ttl: the lease has ended, or its server is down. Renewals continue; if one succeeds, the
     * lease is {@link #HELD} again. Or renewals have stopped, because the client is closed or {@link Hold#close} has failed: then
     * the end of the lease may not be noticed.
     */
    OVERDUE,
    /** The lease ended: the elicitation is closed, and its thread runs unless another one is open. */
    EXPIRED,
    /** A decrement closed the elicitation. */
    RELEASED,
    /** The server does not know the elicitation: it lost its state, or forgot it long ago. */
    UNKNOWN,
    /** A best-effort hold could not be opened: nothing was paused. */
    NOT_OPEN
}
