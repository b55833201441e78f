package dev.pausewatch;

import java.util.Collection;
import java.util.List;
import java.util.function.Predicate;

/** What a {@link WatchLink} tells, on the timer's thread. */
interface WatchListener {
    /** A thread is watched from now on. */
    default void added(String threadId) {}

    /** A thread is watched no more. */
    default void removed(String threadId) {}

    /** A state; {@code snapshot}: not a change, so of a thread that was not known it is a first state. */
    void state(PauseState state, boolean snapshot);

    /** The confirmation of these threads was requested at that moment. */
    default void asked(List<String> threadIds, long at) {}

    /** States that were requested at {@code askedAt}; of threads that are not {@code served} no changes will come. */
    default void confirmed(List<PauseState> states, long askedAt, Predicate<String> served) {}

    /** The state of every watched thread has been told; perhaps not for the first time. */
    default void snapshotComplete() {}

    /** Nothing is known of these threads any more, or, of a link of all, of any; {@code silentFor} nanoseconds nothing was heard before. */
    void disconnected(Collection<String> threadIds, PausewatchException error, long silentFor);

    /** The same once more: nothing was heard since. */
    void disconnectedAgain(Collection<String> threadIds);

    /** These threads may not be watched. */
    default void refused(Collection<String> threadIds, PausewatchException error) {
        disconnected(threadIds, error, 0);
    }

    /** Whether nothing more should come for now. */
    default boolean isFull() {
        return false;
    }

    /** Of a link of all: the threads whose state is to be told besides those that are paused. */
    default Collection<String> unknown() {
        return List.of();
    }
}
