package dev.pausewatch;

import java.time.Instant;
import java.util.Optional;

/**
 * A change of the link between the deadlines of a client and the coordinator: see {@link Config.Builder#onLink}.
 *
 * @param state the new state
 * @param since when the connection was lost; if it was silent for 15 s before, when its last message arrived; empty: connected
 * @param error the cause; empty: connected
 */
public record Link(State state, Optional<Instant> since, Optional<PausewatchException> error) {
    /** The state of the link between deadlines and the coordinator. */
    public enum State {
        /**
         * The state of every followed thread is known and up to date, except of threads that the coordinator refuses; a refusal is
         * logged.
         */
        CONNECTED,
        /** The state of at least one thread may be out of date; deadlines continue with the last known states. */
        DISCONNECTED,
        /**
         * Disconnected for longer than the disconnect grace: paused threads count as running, and deadlines that run out expire
         * without a confirmation.
         */
        GRACE_SPENT
    }
}
