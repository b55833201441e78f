package dev.pausewatch;

import java.time.Instant;
import java.util.List;

/**
 * One page of ended pauses.
 *
 * @param pauses the pauses, latest end first
 * @param nextPageToken for the next page; empty: this was the last
 * @param historyStartTime every pause that ended at this time or later is kept, by the server's wall clock
 */
public record PausePage(List<Pause> pauses, String nextPageToken, Instant historyStartTime) {}
