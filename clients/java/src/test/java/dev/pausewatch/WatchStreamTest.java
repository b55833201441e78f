package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.pausewatch.v1.Refusal;
import dev.pausewatch.v1.WatchResponse;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class WatchStreamTest {
    private static final Duration FIRST_ANSWER = Duration.ofSeconds(5);
    private static final Duration SILENCE = Duration.ofSeconds(30);

    private final ManualTimer timer = new ManualTimer();
    private final Reader reader = new Reader();
    private final WatchStream stream = new WatchStream(new Connection(new Channel()), timer, reader);

    /** How many messages the stream has asked for. */
    private int requested;

    private boolean cancelled;

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
        public void broken(PausewatchException error, long silentFor, boolean owesAnswer) {
            breaks++;
            owing += owesAnswer ? 1 : 0;
        }

        @Override
        public boolean hasRoom() {
            return room;
        }
    }

    /** Opens calls that only note what they are asked for. */
    private final class Channel extends ManagedChannel {
        @Override
        public <Q, R> ClientCall<Q, R> newCall(MethodDescriptor<Q, R> method, CallOptions options) {
            return new ClientCall<>() {
                @Override
                public void start(Listener<R> answers, Metadata headers) {}

                @Override
                public void request(int messages) {
                    requested += messages;
                }

                @Override
                public void cancel(String message, Throwable cause) {
                    cancelled = true;
                }

                @Override
                public void halfClose() {}

                @Override
                public void sendMessage(Q message) {}
            };
        }

        @Override
        public ConnectivityState getState(boolean connect) {
            return ConnectivityState.READY;
        }

        @Override
        public String authority() {
            return "";
        }

        @Override
        public ManagedChannel shutdown() {
            return this;
        }

        @Override
        public ManagedChannel shutdownNow() {
            return this;
        }

        @Override
        public boolean isShutdown() {
            return false;
        }

        @Override
        public boolean isTerminated() {
            return false;
        }

        @Override
        public boolean awaitTermination(long timeout, TimeUnit unit) {
            return true;
        }
    }

    private void open() {
        stream.open(FIRST_ANSWER);
    }

    private void hear() {
        stream.onNext(WatchResponse.getDefaultInstance());
    }

    @Test
    void itAsksForOneMessageAfterTheOther() {
        open();
        assertEquals(1, requested);
        hear();
        assertEquals(2, requested);
        stream.readOn();
        assertEquals(2, requested, "it did not stand");
    }

    @Test
    void g7WithoutRoomItStandsAndIsNotTakenForSilent() {
        open();
        reader.room = false;
        hear();
        assertEquals(1, requested);
        timer.advance(SILENCE.multipliedBy(100));
        assertEquals(0, reader.breaks);
        reader.room = true;
        stream.readOn();
        assertEquals(2, requested);
        stream.readOn();
        assertEquals(2, requested);
        timer.advance(SILENCE.minusMillis(1));
        assertEquals(0, reader.breaks);
        timer.advance(Duration.ofMillis(1));
        assertEquals(1, reader.breaks);
        assertTrue(cancelled);
    }

    @Test
    void aStreamThatStandsCanBreakAndEnd() {
        open();
        reader.room = false;
        hear();
        assertFalse(cancelled);
        stream.onCompleted();
        assertEquals(1, reader.breaks);
        stream.readOn();
        assertEquals(1, requested);
        assertEquals(0, timer.alarms());
    }

    @Test
    void whileItOwesAnAnswerAShortSilenceBreaksIt() {
        open();
        hear();
        timer.advance(Duration.ofSeconds(20));
        stream.hurry(TimeUnit.MILLISECONDS.toNanos(250));
        timer.advance(Duration.ofMillis(200));
        hear();
        timer.advance(Duration.ofMillis(249));
        assertEquals(0, reader.breaks, "it was heard meanwhile");
        timer.advance(Duration.ofMillis(1));
        assertEquals(1, reader.breaks);
        assertEquals(1, reader.owing);
    }

    @Test
    void whenItHasAnsweredItMayBeSilentAgain() {
        open();
        hear();
        stream.hurry(TimeUnit.MILLISECONDS.toNanos(250));
        hear();
        stream.calm();
        timer.advance(SILENCE.minusMillis(1));
        assertEquals(0, reader.breaks);
        timer.advance(Duration.ofMillis(1));
        assertEquals(1, reader.breaks);
        assertEquals(0, reader.owing);
    }
}
