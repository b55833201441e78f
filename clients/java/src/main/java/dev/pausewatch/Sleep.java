package dev.pausewatch;

import java.io.IOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** How long the machine has slept (suspend, hibernation). */
final class Sleep {
    /** Counts sleep, to 10 ms. Only on Linux. */
    private static final Path UPTIME = Path.of("/proc/uptime");

    private Sleep() {}

    /** An interruption between the readings of two clocks that is this long could be taken for a sleep. */
    private static final long LONGEST_READING = 10_000_000;

    /** Reads a clock, in nanoseconds. */
    interface Reading {
        long read() throws IOException;
    }

    /**
     * The time asleep in nanoseconds, since a moment that is the same for the whole process; only differences are
     * meaningful. If it is not known, it stays constant: then a sleep within a pause is credited too, up to the time
     * that was charged.
     */
    static long slept() {
        try {
            return difference(System::nanoTime, Sleep::uptime);
        } catch (IOException | NumberFormatException | IndexOutOfBoundsException unknown) {
            return 0;
        }
    }

    /**
     * How far {@code withSleep} is ahead of {@code awake}. The clocks are read again after an interruption; on a machine
     * that is too busy for that, the shortest of 100 readings counts.
     */
    static long difference(Reading awake, Reading withSleep) throws IOException {
        long shortest = Long.MAX_VALUE;
        long ahead = 0;
        for (int reading = 0; reading < 100 && shortest >= LONGEST_READING; reading++) {
            long before = awake.read();
            long at = withSleep.read();
            long after = awake.read();
            if (after - before < shortest) {
                shortest = after - before;
                ahead = at - after;
            }
        }
        return ahead;
    }

    private static long uptime() throws IOException {
        String text = Files.readString(UPTIME, StandardCharsets.US_ASCII);
        return new BigDecimal(text.substring(0, text.indexOf(' ')))
                .movePointRight(9)
                .longValue();
    }
}
