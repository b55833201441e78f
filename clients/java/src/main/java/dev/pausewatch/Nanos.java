package dev.pausewatch;

import java.time.Duration;

/** Durations as nanoseconds in a {@code long}, bounded so that the sum of a few cannot overflow. */
final class Nanos {
    /** 36 years: longer than any process, and an eighth of what a {@code long} holds. */
    static final long MAX = Long.MAX_VALUE / 8;

    private Nanos() {}

    /** {@code duration} in nanoseconds: 0 if it is negative, {@link #MAX} if it is longer. */
    static long of(Duration duration) {
        if (duration.isNegative()) {
            return 0;
        }
        return duration.compareTo(Duration.ofNanos(MAX)) >= 0 ? MAX : duration.toNanos();
    }

    /** As people write it: {@code 5s}, {@code 500ms}. */
    static String text(Duration duration) {
        return duration.toMillisPart() == 0 && duration.toNanosPart() == 0
                ? duration.toSeconds() + "s"
                : of(duration) / 1_000_000 + "ms";
    }
}
