package dev.pausewatch;

/**
 * The result of an increment.
 *
 * @param count the number of open elicitations of the thread right after this call: 1 to 1,000
 * @param paused always true
 * @param revision the revision of the thread after this call
 * @param elicitation the elicitation that was opened
 * @param watchers the number of streams that watch the thread now; 0 indicates that no exec server will notice the
 *     pause
 */
public record IncrementResult(int count, boolean paused, long revision, Elicitation elicitation, int watchers) {}
