package dev.pausewatch;

/**
 * What a decrement made of the thread.
 *
 * @param count open elicitations of the thread right after it: 0 to 999
 * @param paused whether the thread is still paused
 * @param revision the revision of the thread that it made
 */
public record DecrementResult(int count, boolean paused, long revision) {}
