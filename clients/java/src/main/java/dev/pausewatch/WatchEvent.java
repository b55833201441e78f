package dev.pausewatch;

import java.time.Duration;
import java.util.List;

/** One event of a {@link Watch}. */
public sealed interface WatchEvent {
    /**
     * The state of a thread: the first one, a change, or the first one after a disconnect.
     *
     * @param state the state; with its elicitations if {@link WatchBuilder#includeElicitations()} was called
     * @param gap changes may have been missed before this state, because it is the first of its thread, or the first after a
     *     disconnect
     * @param changed the revision or the epoch differs from the last state reported for the thread; false only after a gap in
     *     which nothing changed
     */
    record State(PauseState state, boolean gap, boolean changed) implements WatchEvent {}

    /** The state of every watched thread has been delivered; changes follow. Repeated after every reconnection and after threads were added. */
    record SnapshotComplete() implements WatchEvent {}

    /**
     * The states of these threads are unknown until the next state of each is reported. The watch is reconnecting.
     *
     * @param threadIds the disconnected threads; empty with {@link Client#watchAll()}, where it is all of them
     * @param error the cause
     * @param silentFor the time since the last message, if the connection died silently; zero if its end was noticed at once
     */
    record Disconnected(List<String> threadIds, PausewatchException error, Duration silentFor) implements WatchEvent {}
}
