package dev.pausewatch;

import dev.pausewatch.v1.ElicitationServiceGrpc;
import dev.pausewatch.v1.WatchPauseStateRequest;
import dev.pausewatch.v1.WatchPauseStateResponse;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ClientResponseObserver;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * One stream of states, from its opening to its break. Everything happens on the timer's thread.
 *
 * <p>1. A stream without a message for two heartbeats counts as dead, even if TCP reports no error; before its first message, one deadline of a call is enough.
 *
 * <p>2. It breaks once, and says nothing afterwards; cancelled, it says nothing at all.
 *
 * <p>3. While its reader has no room, it stands: it asks for no message, and is not silent but unheard. That its connection lives is seen by the
 * pings meanwhile.
 */
final class WatchStream implements ClientResponseObserver<WatchPauseStateRequest, WatchPauseStateResponse> {
    /**
     * The time within which the server promises a heartbeat. A connection that ends after a longer silence was dead during it: its end is what a
     * ping without an answer, or this library, has made of the silence.
     */
    private static final long HEARTBEAT_NANOS = TimeUnit.SECONDS.toNanos(15);

    /** The longest silence. */
    private static final long SILENCE_NANOS = 2 * HEARTBEAT_NANOS;

    private final Connection connection;
    private final Timer timer;
    private final Reader reader;
    private ClientCall<WatchPauseStateRequest, WatchPauseStateResponse> call;
    private ClientCallStreamObserver<WatchPauseStateRequest> messages;
    private boolean stands;
    private long heard;
    private long patience;
    private Timer.Alarm silence = Timer.Alarm.NONE;
    private boolean over;

    /** Who is told. */
    interface Reader {
        void state(WatchStream stream, PauseState state);

        /** Each thread was told once since the stream was opened. */
        void complete(WatchStream stream);

        /** The stream broke, or could not be opened; {@code silentFor}: nanoseconds since its last message, if it died in silence. */
        void broken(WatchStream stream, PausewatchException error, long silentFor);

        /** Whether more should come now; if not, {@link WatchStream#readOn} is called when there is. */
        boolean hasRoom();
    }

    WatchStream(Connection connection, Timer timer, Reader reader) {
        this.connection = connection;
        this.timer = timer;
        this.reader = reader;
    }

    /** Opens it; {@code firstAnswer} is how long that may take. */
    void open(WatchPauseStateRequest request, Duration firstAnswer) {
        patience = Nanos.of(firstAnswer);
        heard = timer.now();
        listen();
        call = connection
                .channel()
                .newCall(ElicitationServiceGrpc.getWatchPauseStateMethod(), CallOptions.DEFAULT.withExecutor(timer));
        ClientCalls.asyncServerStreamingCall(call, request, this);
    }

    /** There is room again. */
    void readOn() {
        if (stands && !over) {
            stands = false;
            heard = timer.now();
            listen();
            messages.request(1);
        }
    }

    void cancel() {
        over = true;
        silence.cancel();
        call.cancel("the watch goes on without this stream", null);
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<WatchPauseStateRequest> messages) {
        this.messages = messages;
        messages.disableAutoRequestWithInitial(1);
    }

    @Override
    public void onNext(WatchPauseStateResponse message) {
        if (over) {
            return;
        }
        heard = timer.now();
        patience = SILENCE_NANOS;
        switch (message.getEventCase()) {
            case PAUSE_STATE -> reader.state(this, Wire.state(message.getPauseState()));
            case SNAPSHOT_COMPLETE -> reader.complete(this);
            // An event of a newer server is a sign of life.
            case HEARTBEAT, EVENT_NOT_SET -> {}
        }
        if (over) {
            return;
        }
        if (reader.hasRoom()) {
            messages.request(1);
        } else {
            stands = true;
            silence.cancel();
        }
    }

    @Override
    public void onError(Throwable thrown) {
        broken(thrown);
    }

    @Override
    public void onCompleted() {
        broken(unavailable("the watch ended"));
    }

    private void listen() {
        long left = heard + patience - timer.now();
        if (left > 0) {
            silence = timer.in(left, this::listen);
        } else {
            broken(unavailable("the watch was silent for " + Nanos.text(Duration.ofNanos(patience))));
        }
    }

    private void broken(Throwable thrown) {
        if (!over) {
            cancel();
            long silentFor = stands ? 0 : timer.now() - heard;
            reader.broken(this, Failure.of(thrown), silentFor >= HEARTBEAT_NANOS ? silentFor : 0);
        }
    }

    private static StatusRuntimeException unavailable(String text) {
        return new StatusRuntimeException(Status.UNAVAILABLE.withDescription(text));
    }
}
