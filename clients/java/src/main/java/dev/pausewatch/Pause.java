package dev.pausewatch;

import java.time.Duration;
import java.time.Instant;
import java.util.List;

/**
 * One pause of a thread that has ended.
 *
 * @param threadId the thread
 * @param startTime when it began, by the server's wall clock
 * @param endTime when it ended, by the server's wall clock
 * @param duration the length of the pause, by the server's monotonic clock
 * @param endedBy how it ended
 * @param elicitations its elicitations in the order in which they were closed: at most 16
 * @param omittedElicitations how many more there were
 */
public record Pause(
        String threadId,
        Instant startTime,
        Instant endTime,
        Duration duration,
        PauseEnd endedBy,
        List<ClosedElicitation> elicitations,
        int omittedElicitations) {}
