package dev.pausewatch;

import java.time.Duration;
import java.util.Optional;

/**
 * The options of a {@link PausableDeadline} besides its limit: {@code
 * DeadlineOptions.defaults().withMaxWall(Duration.ofHours(1))}.
 *
 * @param disconnectGrace while the coordinator is unreachable: how long a paused thread still counts as paused, and how
 *     long a deadline that ran out waits for a reconnect; deadlines of one client with the same grace share one stream
 * @param maxWall the limit on wall time: no pause extends it, and the coordinator is not asked before it ends the
 *     deadline; empty: there is none
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
