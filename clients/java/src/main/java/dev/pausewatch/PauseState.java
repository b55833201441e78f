package dev.pausewatch;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * The pause state of one thread, at the moment of sending.
 *
 * @param threadId the thread
 * @param count its open elicitations: 0 to 1,000
 * @param paused whether {@code count} is above 0
 * @param revision rises with every change of the thread and never falls within one {@code storeEpoch}; unsigned ({@link Long#compareUnsigned})
 * @param pausedTotal all the time that the thread has been paused, the open pause included
 * @param pausedFor how long the open pause has lasted, by the server's clock; set while paused
 * @param pauseStartTime when the open pause began, by the server's wall clock; set while paused. For people: to compute, use {@code pausedFor}
 * @param elicitations the open elicitations, oldest first; of a watch only if it asked for them
 * @param storeEpoch identifies the history of the server's store: {@code revision} and {@code pausedTotal} can be compared only within one epoch.
 *     A restored or new store and a restarted memory store have another. 0: the server is older than this field
 */
public record PauseState(
        String threadId,
        int count,
        boolean paused,
        long revision,
        Duration pausedTotal,
        Optional<Duration> pausedFor,
        Optional<Instant> pauseStartTime,
        List<Elicitation> elicitations,
        long storeEpoch) {}
