package dev.pausewatch;

/**
 * A call that lists one page of threads.
 *
 * @param pageSize threads a page: 0 means 100; above 1,000 is cut to 1,000; a page may hold fewer
 * @param pageToken {@link PauseStatePage#nextPageToken()} of the page before; empty for the first page
 * @param includeRunning also the threads that are known and not paused
 */
public record ListPauseStates(int pageSize, String pageToken, boolean includeRunning) {

    /** The first page of the paused threads. */
    public static ListPauseStates paused() {
        return new ListPauseStates(0, "", false);
    }

    /** The first page of all threads that are known. */
    public static ListPauseStates known() {
        return new ListPauseStates(0, "", true);
    }

    /** The same call with so many threads a page. */
    public ListPauseStates withPageSize(int pageSize) {
        return new ListPauseStates(pageSize, pageToken, includeRunning);
    }

    /** The same call for the page after the one that brought this token. */
    public ListPauseStates withPageToken(String pageToken) {
        return new ListPauseStates(pageSize, pageToken, includeRunning);
    }
}
