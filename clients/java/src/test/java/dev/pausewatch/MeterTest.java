package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class MeterTest {
    /** Any moment: clocks may begin below zero. */
    private static final long START = -s(3);

    private final Meter meter = new Meter(s(10), START);

    private static long s(long seconds) {
        return TimeUnit.SECONDS.toNanos(seconds);
    }

    private void assertCharged(long charged, long at, long pausedTime) {
        assertEquals(s(charged), meter.charged(START + s(at), s(pausedTime)));
    }

    private void pause(long at, long pausedTime) {
        meter.pause(START + s(at), s(pausedTime));
    }

    @Test
    void theSharedVectors() throws IOException {
        for (JsonObject each : Vectors.cases("meter.json")) {
            Vectors.known(each, "name", "start", "steps");
            JsonObject start = Vectors.known(each.getAsJsonObject("start"), "at_ms", "paused_ms", "limit_ms");
            long began = START + Vectors.nanos(start, "at_ms");
            Meter shared = new Meter(Vectors.nanos(start, "limit_ms"), began);
            for (JsonObject step : Vectors.list(each, "steps")) {
                String name = each.get("name").getAsString() + ": " + step;
                play(shared, step, Vectors.nanos(start, "paused_ms"), Vectors.nanos(start, "limit_ms"), name);
            }
        }
    }

    private static void play(Meter meter, JsonObject step, long pausedBefore, long limit, String name) {
        Vectors.known(step, "at_ms", "paused_ms", "do", "expect");
        long at = START + Vectors.nanos(step, "at_ms");
        long paused = Vectors.nanos(step, "paused_ms") - pausedBefore;
        switch (step.has("do") ? step.get("do").getAsString() : "nothing") {
            case "pause" -> meter.pause(at, paused);
            case "resume" -> meter.resume(at, paused);
            default -> assertTrue(step.has("expect"), name);
        }
        JsonObject expected = step.has("expect") ? step.getAsJsonObject("expect") : new JsonObject();
        for (String key : expected.keySet()) {
            long figure = switch (key) {
                case "charged_ms" -> meter.charged(at, paused);
                case "left_ms" -> meter.left(at, paused);
                case "shown_ms" -> meter.elapsed(at, paused);
                case "remaining_ms" -> Math.max(0, limit - meter.elapsed(at, paused));
                default -> throw new AssertionError("unknown: " + key);
            };
            assertEquals(Vectors.nanos(expected, key), figure, name);
        }
    }

    @Test
    void lessPausedTimeThanWasAssumedIsChargedAfterAll() {
        assertCharged(1, 5, 4);
        meter.settle(START + s(5), s(4));
        assertCharged(4, 5, 1);
        pause(5, 4);
        assertCharged(4, 6, 1);
    }

    @Test
    void ofManyPausesTheOldestMayBeTakenForOne() {
        Covered covered = new Covered();
        for (long begin = 0; begin < 200; begin += 2) {
            covered.add(begin, begin + 1);
        }
        assertEquals(5, covered.beyond(190));
        assertTrue(covered.beyond(0) >= 100, "never less than there is");
        covered.cut(193);
        assertEquals(2, covered.beyond(190));
        covered.cut(0);
        assertEquals(0, covered.beyond(0));
    }

    @Test
    void theEndsOfTheTypesAreSafe() {
        Meter longest = new Meter(Nanos.MAX, START);
        assertEquals(0, longest.charged(START, Nanos.MAX));
        longest.settle(START, Nanos.MAX);
        assertEquals(Nanos.MAX, longest.charged(START, 0));
        assertEquals(0, longest.left(START, 0));
        longest.settle(START, 0);
        assertEquals(Nanos.MAX, longest.charged(START + s(1), 0));
        assertTrue(longest.resume(START, 0), "one resume too many is harmless");
    }
}
