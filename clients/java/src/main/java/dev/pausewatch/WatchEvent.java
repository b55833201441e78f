package dev.pausewatch;

import java.time.Duration;
import java.util.List;

/** One event of a {@link Watch}. */
public sealed interface WatchEvent {
    /**
     * The state of a thread: the first one, a change, or the first one after a break.
     *
     * @param state the state; its elicitations are filled if {@link WatchBuilder#includeElicitations()} asked for them
     * @param gap changes may have been missed before this state: it is the first of its thread, or the first after a break
     * @param changed the revision or the epoch differs from the last state told; false only after a gap: nothing happened in it
     */
    record State(PauseState state, boolean gap, boolean changed) implements WatchEvent {}

    /** The state of every watched thread has been delivered; changes follow. Repeated after every reconnection and after threads were added. */
    record SnapshotComplete() implements WatchEvent {}

    /**
     * From here on nothing is known of these threads until their next state comes. The watch is trying again.
     *
     * @param threadIds the threads; empty with {@link Client#watchAll()}, where it is all of them
     * @param error why
     * @param silentFor how long ago the last message came, if the connection died in silence; zero if its end was noticed at once
     */
    record Disconnected(List<String> threadIds, PausewatchException error, Duration silentFor) implements WatchEvent {}
}
