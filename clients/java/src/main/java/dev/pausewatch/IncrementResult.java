package dev.pausewatch;

/**
 * What an increment made of the thread.
 *
 * @param count open elicitations of the thread right after it: 1 to 1,000
 * @param paused always true
 * @param revision the revision of the thread that it made
 * @param elicitation the elicitation that was opened
 * @param watchers streams of the server that watch the thread now; 0 hints that no exec server will notice the pause
 */
public record IncrementResult(int count, boolean paused, long revision, Elicitation elicitation, int watchers) {}
