package dev.pausewatch;

/**
 * The revision of a state, and the epoch in which it counts.
 *
 * @param epoch of the server's store; 0: the server has none
 * @param revision unsigned
 */
record Version(long epoch, long revision) {
    static Version of(PauseState state) {
        return new Version(state.storeEpoch(), state.revision());
    }

    /** Whether the revisions, and the totals of the states, can be compared. */
    boolean isComparableTo(Version other) {
        return epoch == other.epoch || epoch == 0 || other.epoch == 0;
    }

    /** Orders the revisions of two versions that are comparable. */
    int compareRevision(Version other) {
        return Long.compareUnsigned(revision, other.revision);
    }

    /** Whether what was told is as new. Another epoch is news: the server lost what it told before. */
    boolean isNoNews(Version told) {
        return epoch == told.epoch && compareRevision(told) <= 0;
    }
}
