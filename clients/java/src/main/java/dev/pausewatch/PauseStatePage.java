package dev.pausewatch;

import java.util.List;

/**
 * One page of threads.
 *
 * @param pauseStates by thread id in byte order, with their elicitations
 * @param nextPageToken for the next page; empty: this was the last
 */
public record PauseStatePage(List<PauseState> pauseStates, String nextPageToken) {}
