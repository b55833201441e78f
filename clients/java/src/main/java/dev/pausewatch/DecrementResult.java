package dev.pausewatch;

/**
 * The result of a decrement.
 *
 * @param count the number of open elicitations of the thread right after this call: 0 to 999
 * @param paused whether the thread is still paused
 * @param revision the revision of the thread after this call
 */
public record DecrementResult(int count, boolean paused, long revision) {}
