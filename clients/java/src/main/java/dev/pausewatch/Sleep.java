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

    /**
     * The time asleep in nanoseconds, since a moment that is the same for the whole process; only differences are
     * meaningful. If it is not known, it stays constant: then a sleep within a pause is credited too, up to the time
     * that was charged.
     */
    static long slept() {
        try {
            String text = Files.readString(UPTIME, StandardCharsets.US_ASCII);
            // Read in this order, an interruption between the two makes the difference too small, never too large.
            long uptime = new BigDecimal(text.substring(0, text.indexOf(' ')))
                    .movePointRight(9)
                    .longValue();
            return uptime - System.nanoTime();
        } catch (IOException | NumberFormatException | IndexOutOfBoundsException unknown) {
            return 0;
        }
    }
}
