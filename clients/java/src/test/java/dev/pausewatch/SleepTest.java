package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class SleepTest {
    private static final long HOUR = TimeUnit.HOURS.toNanos(1);

    @Test
    void anInterruptionBetweenTheClocksIsNoSleep() throws IOException {
        for (List<Integer> interruptions : List.of(
                List.<Integer>of(),
                List.of(0, 0, 500),
                List.of(0, 500),
                List.of(0, 0, 500, 0, 0, 500, 0, 500, 500),
                List.of(900, 9, 0))) {
            AtomicLong now = new AtomicLong(7);
            Iterator<Integer> left = interruptions.iterator();
            // The process is interrupted before each reading of a clock, for so many milliseconds.
            Sleep.Reading tick = () -> now.addAndGet(left.hasNext() ? TimeUnit.MILLISECONDS.toNanos(left.next()) : 0);
            assertEquals(HOUR, Sleep.difference(tick, () -> tick.read() + HOUR), interruptions.toString());
        }
    }
}
