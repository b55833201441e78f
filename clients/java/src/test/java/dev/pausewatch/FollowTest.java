package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** A stopwatch with a limit of 10 s that joins a thread which is assumed to have been paused for 50 s, cut off. */
class FollowTest {
    /** The thread, who joined it, and what it is charged. */
    private static final class Joining {
        final ManualTimer timer = new ManualTimer();
        final ThreadClock thread =
                new ThreadClock("t", timer, Duration.ofHours(1).toNanos(), new Questions(timer));
        final Follows.Follow follow;
        final Meter meter;

        Joining() {
            told(1, true, 0);
            thread.disconnect(0);
            timer.advance(Duration.ofSeconds(50));
            follow = new Follows.Follow(thread, timer.now());
            meter = new Meter(Duration.ofSeconds(10).toNanos(), timer.now());
        }

        void told(long revision, boolean paused, long total) {
            told(revision, paused, total, 0);
        }

        void told(long revision, boolean paused, long total, long pausedFor) {
            PauseState state = new PauseState(
                    "t",
                    paused ? 1 : 0,
                    paused,
                    revision,
                    Duration.ofSeconds(total),
                    paused ? Optional.of(Duration.ofSeconds(pausedFor)) : Optional.empty(),
                    Optional.empty(),
                    List.of(),
                    1);
            thread.apply(state, 0);
        }

        void advance(long seconds) {
            timer.advance(Duration.ofSeconds(seconds));
        }

        long used() {
            follow.settle(timer.now());
            return follow.pausedTime(timer.now());
        }

        void charged(long seconds, String why) {
            assertEquals(
                    Duration.ofSeconds(seconds).toNanos(),
                    meter.charged(timer.now(), follow.pausedTime(timer.now())),
                    why);
        }
    }

    @Test
    void g1ALateBaselineChangesTheChargedTimeByAtMostTheTimeSinceTheJoin() {
        Map.of(0L, 2L, 50L, 2L, 51L, 1L, 900L, 0L).forEach((total, charged) -> {
            Joining joining = new Joining();
            joining.advance(2);
            joining.told(2, false, total);
            joining.charged(charged, total + " s");
            joining.advance(2);
            joining.charged(charged + 2, total + " s, later");
        });
    }

    @Test
    void g1ALateBaselineCreditsTheOpenPauseSinceTheJoin() {
        // Each: the total, the open pause, and what is charged of the 2 s since the join.
        long[][] cases = {{50, 2, 0}, {40, 2, 0}, {50, 1, 1}, {40, 1, 1}, {50, 900, 0}, {51, 1, 1}};
        for (long[] each : cases) {
            Joining joining = new Joining();
            joining.advance(2);
            joining.told(3, true, each[0], each[1]);
            joining.charged(each[2], each[0] + " s, open for " + each[1] + " s");
            joining.advance(2);
            joining.charged(each[2], "the pause is still open");
        }
    }

    @Test
    void g3ALateBaselineCountsFromTheJoinDespiteOwnPausesSince() {
        // A pause of its own from 5 s to 6 s, and the place at 7 s. Until then it was assumed to be paused.
        Map.of(57L, 0L, 900L, 0L).forEach((total, charged) -> {
            Joining joining = new Joining();
            joining.advance(5);
            joining.meter.pause(joining.timer.now(), joining.used());
            joining.advance(1);
            joining.meter.resume(joining.timer.now(), joining.used());
            joining.advance(1);
            joining.told(2, false, total);
            joining.charged(charged, total + " s");
            joining.advance(1);
            joining.charged(charged + 1, total + " s, later");
        });
    }

    @Test
    void aPlaceFoundLateChargesNothingForAPauseOfItsOwn() {
        // The thread was assumed to be paused all the time, and was not.
        Joining joining = new Joining();
        joining.advance(1);
        joining.meter.pause(joining.timer.now(), joining.used());
        joining.advance(5);
        joining.meter.resume(joining.timer.now(), joining.used());
        joining.advance(2);
        joining.told(2, false, 50);
        joining.charged(2, "since its own pause");
    }
}
