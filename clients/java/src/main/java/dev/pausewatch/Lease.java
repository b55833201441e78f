package dev.pausewatch;

/** What is known of the lease of a {@link Hold}. */
public enum Lease {
    /** The elicitation is open. */
    HELD,
    /**
     * No renewal got through for a whole ttl: the lease is over, or its server is down. Renewals are still tried; if one succeeds, the lease
     * is {@link #HELD} again. Or the client is closed: then nothing is tried, and its end is not heard of.
     */
    OVERDUE,
    /** The lease ended: the elicitation is closed, and its thread runs unless another one is open. */
    EXPIRED,
    /** The elicitation was closed by a decrement. */
    RELEASED,
    /** The server does not know the elicitation: it lost its state, or has long forgotten it. */
    UNKNOWN,
    /** A best-effort hold that could not be opened: nothing was paused. */
    NOT_OPEN
}
