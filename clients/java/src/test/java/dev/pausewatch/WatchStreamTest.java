package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.pausewatch.v1.Heartbeat;
import dev.pausewatch.v1.Refusal;
import dev.pausewatch.v1.WatchResponse;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class WatchStreamTest {
    private static final Duration FIRST_ANSWER = Duration.ofSeconds(5);
    private static final Duration SILENCE = Duration.ofSeconds(30);

    private final ManualTimer timer = new ManualTimer();
    private final Reader reader = new Reader();
    private final FakeChannel channel = new FakeChannel();
    private final WatchStream stream = new WatchStream(new Connection(channel, "localhost:7420"), timer, reader);

    private static final class Reader implements WatchStream.Reader {
        private boolean room = true;
        private int breaks;

        private int owing;

        @Override
        public void state(PauseState state) {}

        @Override
        public void confirmed(List<PauseState> states) {}

        @Override
        public void answered() {}

        @Override
        public void refused(Refusal refusal) {}

        @Override
        public void broken(PausewatchException error, long silentFor, boolean awaitsAnswer) {
            breaks++;
            owing += awaitsAnswer ? 1 : 0;
        }

        @Override
        public boolean hasRoom() {
            return room;
        }
    }

    private void open() {
        stream.open(FIRST_ANSWER, Optional.empty());
    }

    private void hear() {
        stream.onNext(WatchResponse.getDefaultInstance());
    }

    @Test
    void itAsksForOneMessageAfterTheOther() {
        open();
        assertEquals(1, channel.last().requested);
        hear();
        assertEquals(2, channel.last().requested);
        stream.readOn();
        assertEquals(2, channel.last().requested, "it did not stand");
    }

    @Test
    void g7WithoutRoomItStandsAndIsNotTakenForSilent() {
        open();
        reader.room = false;
        hear();
        assertEquals(1, channel.last().requested);
        timer.advance(SILENCE.multipliedBy(100));
        assertEquals(0, reader.breaks);
        reader.room = true;
        stream.readOn();
        assertEquals(2, channel.last().requested);
        stream.readOn();
        assertEquals(2, channel.last().requested);
        timer.advance(SILENCE.minusMillis(1));
        assertEquals(0, reader.breaks);
        timer.advance(Duration.ofMillis(1));
        assertEquals(1, reader.breaks);
        assertTrue(channel.last().cancelled);
    }

    @Test
    void aStreamThatStandsCanBreakAndEnd() {
        open();
        reader.room = false;
        hear();
        assertFalse(channel.last().cancelled);
        stream.onCompleted();
        assertEquals(1, reader.breaks);
        stream.readOn();
        assertEquals(1, channel.last().requested);
        assertEquals(0, timer.alarms());
    }

    @Test
    void whileAnAnswerIsAwaitedAShortSilenceEndsIt() {
        open();
        hear();
        timer.advance(Duration.ofSeconds(20));
        stream.expectAnswer(TimeUnit.MILLISECONDS.toNanos(250));
        timer.advance(Duration.ofMillis(200));
        hear();
        timer.advance(Duration.ofMillis(249));
        assertEquals(0, reader.breaks, "it was heard meanwhile");
        timer.advance(Duration.ofMillis(1));
        assertEquals(1, reader.breaks);
        assertEquals(1, reader.owing);
    }

    @Test
    void timeInWhichTheProcessCouldNotRunIsNoSilence() {
        open();
        hear();
        stream.expectAnswer(TimeUnit.MILLISECONDS.toNanos(250));
        for (int stall = 0; stall < 8; stall++) {
            timer.stall(Duration.ofMillis(100));
            timer.advance(Duration.ofMillis(5));
        }
        assertEquals(0, reader.breaks, "0.8 s have passed, most of it without this process");
        timer.advance(Duration.ofMillis(250));
        assertEquals(1, reader.breaks);
    }

    @Test
    void aProcessThatIsLateAlwaysGivesUpInTheEnd() {
        open();
        for (int stall = 0; stall < 5_000 && reader.breaks == 0; stall++) {
            timer.stall(Duration.ofMillis(100));
            timer.advance(Duration.ofMillis(5));
        }
        assertEquals(1, reader.breaks);
    }

    @Test
    void whenItHasAnsweredItMayBeSilentAgain() {
        open();
        hear();
        stream.expectAnswer(TimeUnit.MILLISECONDS.toNanos(250));
        hear();
        stream.stopExpecting();
        timer.advance(SILENCE.minusMillis(1));
        assertEquals(0, reader.breaks);
        timer.advance(Duration.ofMillis(1));
        assertEquals(1, reader.breaks);
        assertEquals(0, reader.owing);
    }

    private static WatchResponse beat(long millis) {
        return beat(com.google.protobuf.Duration.newBuilder()
                .setNanos(Math.toIntExact(TimeUnit.MILLISECONDS.toNanos(millis)))
                .build());
    }

    private static WatchResponse beat(com.google.protobuf.Duration every) {
        return WatchResponse.newBuilder()
                .setHeartbeat(Heartbeat.newBuilder().setInterval(every))
                .build();
    }

    @Test
    void twoAndAHalfIntervalsOfTheServerAreTooLong() {
        open();
        hear();
        stream.onNext(beat(400));
        timer.advance(Duration.ofMillis(999));
        assertEquals(0, reader.breaks);
        timer.advance(Duration.ofMillis(1));
        assertEquals(1, reader.breaks);
    }

    @Test
    void anIntervalAboveAnHourCountsAsAnHour() {
        open();
        hear();
        stream.onNext(beat(com.google.protobuf.Duration.newBuilder()
                .setSeconds(315_576_000_000L)
                .build()));
        timer.advance(Duration.ofMinutes(150).minusMillis(1));
        assertEquals(0, reader.breaks);
        timer.advance(Duration.ofMillis(1));
        assertEquals(1, reader.breaks);
    }

    @Test
    void withSeveralAddressesTheFirstMessageHasLessTime() {
        Connection several =
                new Connection(List.of(FakeChannel::new, FakeChannel::new), "a:1,b:1", Optional.empty(), Runnable::run);
        WatchStream first = new WatchStream(several, timer, reader);
        first.open(FIRST_ANSWER, Optional.empty());
        timer.advance(Duration.ofMillis(1_499));
        assertEquals(0, reader.breaks);
        timer.advance(Duration.ofMillis(1));
        assertEquals(1, reader.breaks);
    }

    @Test
    void callersThatFailAtOneReplicaMoveOnce() {
        Connection several =
                new Connection(List.of(FakeChannel::new, FakeChannel::new), "a:1,b:1", Optional.empty(), Runnable::run);
        int[] told = new int[1];
        several.onMove(() -> told[0]++);
        assertTrue(several.moveOn(0) && several.moveOn(0) && several.moveOn(1));
        assertEquals(2, several.now().moves());
        assertEquals(2, told[0]);
        assertFalse(new Connection(channel, "a:1").moveOn(0));
    }
}
