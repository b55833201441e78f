package dev.pausewatch;

import java.time.Instant;

/**
 * One question to a person that is no longer open.
 *
 * @param elicitationId its id
 * @param reason what the person was asked
 * @param holder who asked
 * @param createTime when it was opened, by the server's wall clock
 * @param endTime when it was closed, by the server's wall clock
 * @param endedBy how it was closed
 */
public record ClosedElicitation(
        String elicitationId, String reason, String holder, Instant createTime, Instant endTime, PauseEnd endedBy) {}
