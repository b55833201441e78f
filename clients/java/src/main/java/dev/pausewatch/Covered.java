package dev.pausewatch;

import java.util.ArrayList;
import java.util.List;

/**
 * Which part of the paused time of its threads a stopwatch did not use, because it had a pause of its own then.
 *
 * <p>If the thread turns out to have been paused for less than was assumed, the newest part of its paused time is taken back: an
 * assumed pause ended early. What is taken back is charged, except for the part that was covered, which was never credited.
 *
 * <p>The parts are kept in their order, not only their sum: an old one, in which the thread was paused indeed, must not make up for
 * a later error.
 */
final class Covered {
    /**
     * The maximum number of parts. Beyond it, the two oldest parts are merged: a correction rarely reaches that far
     * back, and if it does, too little is charged.
     */
    private static final int MAX_PARTS = 32;

    /** From which paused time to which. */
    private record Part(long begin, long end) {}

    /** The oldest first. */
    private final List<Part> parts = new ArrayList<>();

    /** How much of what is beyond {@code pausedTime} is covered. */
    long beyond(long pausedTime) {
        long sum = 0;
        for (Part part : parts) {
            sum += Math.max(0, part.end - Math.max(part.begin, pausedTime));
        }
        return sum;
    }

    /** Takes back what is beyond {@code pausedTime}. */
    void cut(long pausedTime) {
        while (!parts.isEmpty() && last().end > pausedTime) {
            Part last = parts.remove(parts.size() - 1);
            if (last.begin < pausedTime) {
                parts.add(new Part(last.begin, pausedTime));
            }
        }
    }

    /** Covers the paused time from {@code begin}, which is not before the last part, to {@code end}. */
    void add(long begin, long end) {
        if (begin >= end) {
            return;
        }
        boolean goesOn = !parts.isEmpty() && last().end == begin;
        parts.add(new Part(goesOn ? parts.remove(parts.size() - 1).begin : begin, end));
        if (parts.size() > MAX_PARTS) {
            Part oldest = parts.remove(0);
            parts.set(0, new Part(oldest.begin, parts.get(0).end));
        }
    }

    private Part last() {
        return parts.get(parts.size() - 1);
    }
}
