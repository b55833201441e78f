package dev.pausewatch;

import java.util.Collection;
import java.util.List;
import java.util.function.Predicate;

/** Receives the events of a {@link WatchLink}, on the timer's thread. */
interface WatchListener {
    /** A thread is watched from now on. */
    default void added(String threadId) {}

    /** A thread is not watched any more. */
    default void removed(String threadId) {}

    /** A state. {@code snapshot}: it is part of a snapshot, not a change; if the thread was unknown, it is its first state. */
    void state(PauseState state, boolean snapshot);

    /** The confirmation of these threads was requested at {@code at}. */
    default void asked(List<String> threadIds, long at) {}

    /**
     * The confirmed states, which were requested at {@code askedAt}; threads that are not {@code served} will report no changes.
     */
    default void confirmed(List<PauseState> states, long askedAt, Predicate<String> served) {}

    /** The state of every watched thread has been reported; may be called again without a disconnect. */
    default void snapshotComplete() {}

    /** These threads are disconnected (a watch of all: every thread). {@code silentFor}: nanoseconds without a message before. */
    void disconnected(Collection<String> threadIds, PausewatchException error, long silentFor);

    /** They were disconnected again, and nothing was received in between. */
    void disconnectedAgain(Collection<String> threadIds);

    /** These threads may not be watched. */
    default void refused(Collection<String> threadIds, PausewatchException error) {
        disconnected(threadIds, error, 0);
    }

    /** Whether no more events should be sent for now. */
    default boolean isFull() {
        return false;
    }

    /** With a watch of all: the threads whose state must be requested in addition to the paused ones. */
    default Collection<String> unknown() {
        return List.of();
    }
}
