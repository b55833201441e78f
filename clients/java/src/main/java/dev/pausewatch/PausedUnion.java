package dev.pausewatch;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * How long any of several threads has been paused: time counts once however many are paused. Pure: no clock is read, and the
 * paused time of each thread, under its name, is an argument. All times are nanoseconds.
 *
 * <p>While all threads are connected, the union is exact: {@link #settle} marks every change of one, and between two marks each
 * was paused throughout or not at all. For a gap, in which one was disconnected, only the length of the pauses becomes known, not
 * when they were:
 *
 * <p>1. A gap counts as much as possible: the sum of the pauses in it, but at most its length, and at least the longest pause. So
 * no pause is ever charged, and the excess is less than the gap.
 *
 * <p>2. A thread that is removed in a gap counts with its paused time as known by then.
 */
final class PausedUnion {
    /** The union up to the mark, and the paused time of each thread there. */
    private long total;

    private long mark;
    private final Map<String, Long> atMark = new HashMap<>();
    /** How long each thread that was removed since the mark was paused since the mark. */
    private final List<Long> gone = new ArrayList<>();

    PausedUnion(long now) {
        mark = now;
    }

    /** Adds a thread, which counts from now on. */
    void add(String name, long pausedTime) {
        atMark.put(name, pausedTime);
    }

    /** Removes a thread, which does not count from now on. */
    void remove(String name, long pausedTime) {
        gone.add(pausedTime - atMark.remove(name));
    }

    /**
     * Moves the mark to {@code now}: a thread changes, or a gap ends. Does nothing if {@code now} is before the mark.
     */
    void settle(long now, Map<String, Long> pausedTimes) {
        if (now - mark < 0) {
            return;
        }
        total = total(now, pausedTimes);
        mark = now;
        atMark.putAll(pausedTimes);
        gone.clear();
    }

    /** How long any of them has been paused, as far as is known now. */
    long total(long now, Map<String, Long> pausedTimes) {
        long longest = Long.MIN_VALUE;
        long sum = 0;
        for (long one : gone) {
            longest = Math.max(longest, one);
            sum += one;
        }
        for (Map.Entry<String, Long> thread : pausedTimes.entrySet()) {
            long one = thread.getValue() - atMark.get(thread.getKey());
            longest = Math.max(longest, one);
            sum += one;
        }
        // The longest may be longer than the time since the mark: a correction of what was assumed before.
        return total + Math.max(longest, Math.min(sum, Math.max(0, now - mark)));
    }
}
