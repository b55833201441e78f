package dev.pausewatch;

import java.time.Instant;
import java.util.Optional;

/**
 * A call that lists one page of ended pauses.
 *
 * @param threadId only pauses of this thread; empty: of every thread that the caller may see
 * @param startTime only pauses that ended at this time or later
 * @param endTime only pauses that ended before this time
 * @param pageSize pauses a page: 0 means 100; above 1,000 is cut to 1,000; a page may hold fewer
 * @param pageToken {@link PausePage#nextPageToken()} of the page before; empty for the first page
 */
public record ListPauses(
        String threadId, Optional<Instant> startTime, Optional<Instant> endTime, int pageSize, String pageToken) {

    /** The first page of all pauses. */
    public static ListPauses all() {
        return of("");
    }

    /** The first page of the pauses of one thread. */
    public static ListPauses of(String threadId) {
        return new ListPauses(threadId, Optional.empty(), Optional.empty(), 0, "");
    }

    /** The same call for pauses that ended at {@code startTime} or later, and before {@code endTime}. */
    public ListPauses endedBetween(Instant startTime, Instant endTime) {
        return new ListPauses(threadId, Optional.of(startTime), Optional.of(endTime), pageSize, pageToken);
    }

    /** The same call with so many pauses a page. */
    public ListPauses withPageSize(int pageSize) {
        return new ListPauses(threadId, startTime, endTime, pageSize, pageToken);
    }

    /** The same call for the page after the one that brought this token. */
    public ListPauses withPageToken(String pageToken) {
        return new ListPauses(threadId, startTime, endTime, pageSize, pageToken);
    }
}
