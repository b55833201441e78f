package dev.pausewatch;

import java.time.Instant;
import java.util.Optional;

/**
 * A change of the link between the deadlines of a client and the coordinator: see {@link Config.Builder#onLink}.
 *
 * @param state what it is now
 * @param since when the connection was lost; if it was silent for 15 s before, when its last message came; empty: connected
 * @param error why; empty: connected
 */
public record Link(State state, Optional<Instant> since, Optional<PausewatchException> error) {
    /** How deadlines are linked to the coordinator. */
    public enum State {
        /** The state of every thread that is followed is known and up to date. */
        CONNECTED,
        /** Deadlines go on with the last states that are known. */
        DISCONNECTED,
        /**
         * Disconnected for longer than the disconnect grace: paused threads count as running, and what runs out expires without a confirmation.
         */
        GRACE_SPENT
    }
}
