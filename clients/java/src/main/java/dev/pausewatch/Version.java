package dev.pausewatch;

/**
 * The revision of a state, and the epoch in which it is comparable.
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

    /**
     * Whether this version need not be reported again. Another epoch is always newer: the server lost the state that it reported
     * before.
     */
    boolean isNotNewerThan(Version reported) {
        return epoch == reported.epoch && compareRevision(reported) <= 0;
    }
}
