package dev.pausewatch;

import java.time.Duration;
import java.util.Optional;

/**
 * What a {@link PausableDeadline} may have besides its limit: {@code DeadlineOptions.defaults().withMaxWall(Duration.ofHours(1))}.
 *
 * @param disconnectGrace how long, cut off from the coordinator, a paused thread still counts as paused, and a deadline that ran out waits for
 *     the link; deadlines of one client with the same grace share one stream
 * @param maxWall an upper bound on wall time: the deadline expires then at the latest, whatever is paused and without asking the coordinator;
 *     empty: there is none
 */
public record DeadlineOptions(Duration disconnectGrace, Optional<Duration> maxWall) {
    private static final DeadlineOptions DEFAULTS = new DeadlineOptions(Duration.ofSeconds(30), Optional.empty());

    /** A disconnect grace of 30 s, and no limit on wall time. */
    public static DeadlineOptions defaults() {
        return DEFAULTS;
    }

    /** The same with another disconnect grace. */
    public DeadlineOptions withDisconnectGrace(Duration disconnectGrace) {
        return new DeadlineOptions(disconnectGrace, maxWall);
    }

    /** The same with a limit on wall time. */
    public DeadlineOptions withMaxWall(Duration maxWall) {
        return new DeadlineOptions(disconnectGrace, Optional.of(maxWall));
    }
}
