package dev.pausewatch;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The threads whose pauses stop one stopwatch: its own, and those that it awaits. Guarded by the stopwatch.
 *
 * <p>1. A thread that is awaited several times is followed once, until the last of these waits ends.
 *
 * <p>2. The union of their pauses is settled at every change while all threads are linked, but not within a gap: see
 * {@link PausedUnion}.
 */
final class Follows {
    private final PausedUnion union;
    private final Map<String, Follow> follows = new LinkedHashMap<>();

    /** One thread, since a stopwatch joined it. */
    static final class Follow {
        final ThreadClock thread;
        final long joinedAt;
        private final long assumed;
        private Optional<PausedTimeTracker.Joined> joined;
        /** Added to the thread's paused time, it gives the paused time since the join. */
        private long shift;

        private long settled;
        /** How many times it is awaited. */
        private int awaited = 1;

        Follow(ThreadClock thread, long now) {
            PausedTimeTracker.Join join = thread.join(now);
            this.thread = thread;
            joinedAt = now;
            assumed = join.pausedTime();
            joined = Optional.of(join.joined());
            shift = -assumed;
        }

        /**
         * How long the thread has been paused since the stopwatch joined it. The paused time at the join is only
         * assumed until the next state. With that state it is corrected: the difference may be older than the join, so
         * at most the time since the join is credited, and at least the open pause of that state. Paused time that was
         * settled meanwhile is never charged again: a pause of the stopwatch itself may overlap with it.
         */
        long pausedTime(long now) {
            long pausedTime = thread.pausedTime(now);
            // Read afterwards: if there is no place yet, the paused time above is older than the state that sets the
            // place.
            Optional<PausedTimeTracker.Place> place = joined.flatMap(PausedTimeTracker.Joined::place);
            if (place.isPresent()) {
                long known = place.get().pausedTime();
                long growth = Math.min(
                        Math.max(place.get().pausedFor(), known - assumed),
                        Math.max(0, place.get().at() - joinedAt));
                shift = Math.max(growth, settled) - known;
                joined = Optional.empty();
                pausedTime = thread.pausedTime(now);
            }
            return pausedTime + shift;
        }

        /** The stopwatch has used the paused time of {@code now}. */
        void settle(long now) {
            settled = pausedTime(now);
        }
    }

    /** {@code own}: the stopwatch's thread, which it has joined at {@code now}. */
    Follows(ThreadClock own, long now) {
        union = new PausedUnion(now);
        add(own, now);
    }

    /** Its own first. */
    List<Follow> all() {
        return List.copyOf(follows.values());
    }

    boolean isLinked() {
        return follows.values().stream().allMatch(follow -> follow.thread.isLinked());
    }

    boolean isPaused(long now) {
        return follows.values().stream()
                .anyMatch(follow -> follow.thread.pause(now).paused());
    }

    /** How long any of them has been paused. */
    long pausedTime(long now) {
        return union.total(now, pausedTimes(now));
    }

    /** The stopwatch has used the paused time of {@code now}. */
    void used(long now) {
        follows.values().forEach(follow -> follow.settle(now));
    }

    /** Settles the union at {@code now}, if all threads are linked. */
    void settle(long now) {
        if (isLinked()) {
            union.settle(now, pausedTimes(now));
        }
    }

    /** Awaits a thread once more that is followed already. */
    void again(String threadId) {
        follows.get(threadId).awaited++;
    }

    /** Follows a thread that is not followed yet. */
    void add(ThreadClock thread, long now) {
        Follow follow = new Follow(thread, now);
        follows.put(thread.threadId(), follow);
        union.add(thread.threadId(), follow.pausedTime(now));
    }

    /** Ends one wait for a thread. Returns the thread if that was the last wait. */
    Optional<ThreadClock> remove(String threadId, long now) {
        Follow follow = follows.get(threadId);
        follow.awaited--;
        if (follow.awaited > 0) {
            return Optional.empty();
        }
        union.remove(threadId, follow.pausedTime(now));
        follows.remove(threadId);
        settle(now);
        return Optional.of(follow.thread);
    }

    private Map<String, Long> pausedTimes(long now) {
        Map<String, Long> pausedTimes = new HashMap<>();
        follows.forEach((threadId, follow) -> pausedTimes.put(threadId, follow.pausedTime(now)));
        return pausedTimes;
    }
}
