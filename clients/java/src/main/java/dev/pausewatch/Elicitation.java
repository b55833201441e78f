package dev.pausewatch;

import java.time.Instant;
import java.util.Optional;

/**
 * One open question to a person.
 *
 * @param elicitationId its id, given by the server, unique among all threads
 * @param threadId the thread that it pauses
 * @param reason what the person is asked, as the increment said
 * @param holder who asks, as the increment said
 * @param createTime when it was opened, by the server's wall clock
 * @param expireTime when its lease ends unless it is renewed, by the server's wall clock; empty: it has no lease
 */
public record Elicitation(
        String elicitationId,
        String threadId,
        String reason,
        String holder,
        Instant createTime,
        Optional<Instant> expireTime) {}
