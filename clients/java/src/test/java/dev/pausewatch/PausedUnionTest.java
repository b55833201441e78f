package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class PausedUnionTest {
    private static final long START = Long.MAX_VALUE - 5;

    private static Map<String, Long> times(long... pausedTimes) {
        Map<String, Long> named = new HashMap<>();
        for (long pausedTime : pausedTimes) {
            named.put(String.valueOf(named.size()), pausedTime);
        }
        return named;
    }

    private static PausedUnion union(long... pausedTimes) {
        PausedUnion union = new PausedUnion(START);
        times(pausedTimes).forEach(union::add);
        return union;
    }

    @Test
    void aThreadAloneCountsAsItSaysAlsoWhenThatIsCorrected() {
        PausedUnion alone = union(0);
        for (long[] at : new long[][] {{5, 3}, {6, 2}, {7, 7}, {7, 9}, {8, -1}}) {
            assertEquals(at[1], alone.total(START + at[0], times(at[1])));
        }
    }

    @Test
    void g3PausesThatOverlapCountOnce() {
        // One is paused from 10 to 20, the other from 15 to 40.
        PausedUnion both = union(100, 200);
        both.settle(START + 10, times(100, 200));
        both.settle(START + 15, times(105, 200));
        assertEquals(8, both.total(START + 18, times(108, 203)));
        both.settle(START + 20, times(110, 205));
        assertEquals(20, both.total(START + 30, times(110, 215)));
        both.settle(START + 40, times(110, 225));
        assertEquals(30, both.total(START + 50, times(110, 225)));
    }

    @Test
    void g1OfAGapAsMuchCountsAsIsPossible() {
        // From 10 to 20, of which only the paused times are known afterwards.
        long[][] missed = {
            {4, 5, 9}, {8, 7, 10}, {0, 6, 6}, {0, 0, 0}, {10, 10, 10}, {12, 1, 12}, {-3, 0, 0}, {-3, 5, 5}
        };
        for (long[] each : missed) {
            PausedUnion both = union(0, 0);
            both.settle(START + 10, times(10, 0));
            Map<String, Long> after = times(10 + each[0], each[1]);
            assertEquals(10 + each[2], both.total(START + 20, after));
            both.settle(START + 20, after);
            assertEquals(10 + each[2], both.total(START + 30, after));
        }
    }

    @Test
    void aThreadThatIsRemovedCountsUntilThenAndOneThatIsAddedFromThen() {
        PausedUnion changing = union(0, 0);
        changing.settle(START + 10, times(0, 0));
        changing.remove("1", 6);
        assertEquals(6, changing.total(START + 16, times(0)));
        changing.add("2", 1_000);
        assertEquals(9, changing.total(START + 20, Map.of("0", 2L, "2", 1_001L)));
        assertEquals(10, changing.total(START + 20, Map.of("0", 9L, "2", 1_009L)), "never more than the gap");
        changing.settle(START + 20, Map.of("0", 2L, "2", 1_001L));
        assertEquals(19, changing.total(START + 30, Map.of("0", 2L, "2", 1_011L)));
    }

    @Test
    void settlingBeforeTheMarkChangesNothing() {
        PausedUnion both = union(0, 0);
        both.settle(START + 20, times(10, 0));
        both.settle(START + 15, times(5, 0));
        assertEquals(10, both.total(START + 20, times(10, 0)));
    }
}
