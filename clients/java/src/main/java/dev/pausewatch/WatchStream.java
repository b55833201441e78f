package dev.pausewatch;

import dev.pausewatch.v1.Confirmation;
import dev.pausewatch.v1.ElicitationServiceGrpc;
import dev.pausewatch.v1.Heartbeat;
import dev.pausewatch.v1.Refusal;
import dev.pausewatch.v1.WatchRequest;
import dev.pausewatch.v1.WatchResponse;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ClientResponseObserver;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * One stream of states, from its opening to its end. Everything happens on the timer's thread.
 *
 * <p>1. A stream without a message for two heartbeats counts as dead (two and a half, if the server sends their interval), even
 * if TCP reports no error; a stream without a first message, after {@code firstAnswer}.
 *
 * <p>2. While it awaits an answer that a timeout waits for, it counts as dead after a shorter silence.
 *
 * <p>3. Its end is reported once, and nothing afterwards; after {@link #cancel} nothing is reported at all.
 *
 * <p>4. Only the time counts in which this process could run: a silence that an answer must end is measured in short slices, and
 * how late each of them ended is subtracted. On a busy machine the answer may have arrived, and not be read yet.
 *
 * <p>5. While its reader has no room, reading is stopped: it requests no message, and its silence means nothing. Pings detect a
 * dead connection meanwhile.
 */
final class WatchStream implements ClientResponseObserver<WatchRequest, WatchResponse> {
    /**
     * The heartbeat interval of a server that does not send its own. If a connection ends after a longer silence, it was dead
     * during the silence: a ping without an answer, or this library, ended it because of the silence.
     */
    private static final long HEARTBEAT_NANOS = TimeUnit.SECONDS.toNanos(15);

    /** The maximum silence with that interval. */
    private static final long SILENCE_TIMEOUT_NANOS = 2 * HEARTBEAT_NANOS;

    /** The minimum and the maximum heartbeat interval that are accepted from a server. */
    private static final long MIN_HEARTBEAT_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    private static final long MAX_HEARTBEAT_NANOS = TimeUnit.HOURS.toNanos(1);

    /** The longest slice of a silence that an answer must end. */
    private static final long SLICE_NANOS = TimeUnit.MILLISECONDS.toNanos(25);

    private final Connection connection;
    private final Timer timer;
    private final Reader reader;
    private final Connection.Position position;
    private @Nullable ClientCall<WatchRequest, WatchResponse> call;
    private ClientCallStreamObserver<WatchRequest> messages;
    private boolean readingStopped;
    private long lastMessageAt;
    private long silenceTimeout;
    /** The heartbeat interval of the server, and the maximum silence of a stream that works. */
    private long heartbeat = HEARTBEAT_NANOS;

    private long longestSilence = SILENCE_TIMEOUT_NANOS;
    /** Since when an answer is awaited, and how long the stream may be silent then. */
    private long awaitedSince;

    private long answerTimeout = Nanos.MAX;
    /** Whether a message has arrived. */
    private boolean heard;
    /** When the present slice of the silence ends, and how late the earlier ones ended in sum. */
    private long sliceEnd;

    private long stalled;
    private boolean lastChance;
    private Timer.Alarm silence = Timer.Alarm.NONE;
    private boolean ended;

    /** Receives the events of the stream. */
    interface Reader {
        void state(PauseState state);

        /** Some of the states that the request asked to confirm. */
        void confirmed(List<PauseState> states);

        /** The request is answered. */
        void answered();

        /** The request was refused. */
        void refused(Refusal refusal);

        /**
         * The stream ended, or could not be opened.
         *
         * @param silentFor nanoseconds since its last message, if it died silently
         * @param awaitsAnswer it was given up because an awaited answer was late
         */
        void broken(PausewatchException error, long silentFor, boolean awaitsAnswer);

        /** Whether more events may come now; if not, {@link WatchStream#readOn} is called when there is room. */
        boolean hasRoom();
    }

    WatchStream(Connection connection, Timer timer, Reader reader) {
        this.connection = connection;
        this.timer = timer;
        this.reader = reader;
        this.position = connection.now();
    }

    /** The number of moves of the client when the stream was opened. */
    int moves() {
        return position.moves();
    }

    /** Opens it, with a token if that may change; {@code firstAnswer} is how long that may take. */
    void open(Duration firstAnswer, Optional<String> token) {
        silenceTimeout = Nanos.of(firstAnswer);
        if (connection.several()) {
            silenceTimeout = Math.min(silenceTimeout, Connection.ANSWER_TIMEOUT_NANOS);
        }
        lastMessageAt = timer.now();
        listenAgain();
        call = Connection.ready(position)
                .newCall(
                        ElicitationServiceGrpc.getWatchMethod(),
                        Connection.with(token, CallOptions.DEFAULT.withExecutor(timer)));
        ClientCalls.asyncBidiStreamingCall(call, this);
    }

    void send(WatchRequest request) {
        messages.onNext(request);
    }

    /** An answer is awaited: from now on a silence of {@code nanos} is too long. Does nothing if an answer is already awaited. */
    void expectAnswer(long nanos) {
        if (answerTimeout == Nanos.MAX) {
            awaitedSince = timer.now();
            answerTimeout = nanos;
            listenAgain();
        }
    }

    /** No answer is awaited any more. */
    void stopExpecting() {
        answerTimeout = Nanos.MAX;
    }

    /** There is room again. */
    void readOn() {
        if (readingStopped && !ended) {
            readingStopped = false;
            lastMessageAt = timer.now();
            listenAgain();
            messages.request(1);
        }
    }

    void cancel() {
        ended = true;
        silence.cancel();
        if (call != null) {
            call.cancel("this stream is no longer needed", null);
        }
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<WatchRequest> messages) {
        this.messages = messages;
        messages.disableAutoRequestWithInitial(1);
    }

    @Override
    public void onNext(WatchResponse message) {
        if (ended) {
            return;
        }
        lastMessageAt = timer.now();
        stalled = 0;
        heard = true;
        silenceTimeout = longestSilence;
        switch (message.getEventCase()) {
            case PAUSE_STATE -> reader.state(Wire.state(message.getPauseState()));
            case SNAPSHOT_COMPLETE -> reader.answered();
            case CONFIRMATION -> reader.confirmed(confirmed(message.getConfirmation()));
            case REFUSAL -> reader.refused(message.getRefusal());
            // An unknown event, of a newer server, shows that the stream is alive.
            case EVENT_NOT_SET -> {}
            case HEARTBEAT -> beat(message.getHeartbeat());
        }
        if (ended) {
            return;
        }
        if (reader.hasRoom()) {
            messages.request(1);
        } else {
            readingStopped = true;
            silence.cancel();
        }
    }

    private void beat(Heartbeat message) {
        long every = Nanos.of(Wire.duration(message.getInterval()));
        boolean hasInterval = every > 0;
        heartbeat = hasInterval ? Math.min(Math.max(every, MIN_HEARTBEAT_NANOS), MAX_HEARTBEAT_NANOS) : HEARTBEAT_NANOS;
        longestSilence = hasInterval ? heartbeat / 2 * 5 : SILENCE_TIMEOUT_NANOS;
        silenceTimeout = longestSilence;
        listenAgain();
    }

    @Override
    public void onError(Throwable thrown) {
        fail(connection.failure(thrown));
    }

    @Override
    public void onCompleted() {
        fail(Failure.made(Status.UNAVAILABLE, "the watch ended", null));
    }

    /** Ends the stream with an error. */
    void fail(PausewatchException error) {
        broken(error, false);
    }

    private void listenAgain() {
        silence.cancel();
        stalled = 0;
        sliceEnd = timer.now();
        listen();
    }

    private void listen() {
        long now = timer.now();
        stalled += Math.max(0, now - sliceEnd);
        boolean awaits = !heard || answerTimeout != Nanos.MAX;
        long answerLeft = Math.max(lastMessageAt - now, awaitedSince - now) + answerTimeout + stalled;
        long left = Math.min(lastMessageAt + silenceTimeout - now + stalled, answerLeft);
        if (left > 0) {
            lastChance = false;
            long slice = awaits ? Math.min(left, SLICE_NANOS) : left;
            sliceEnd = now + slice;
            silence = timer.in(slice, this::listen);
        } else if (!lastChance) {
            // This process itself may have been stopped: messages that have arrived are read first.
            lastChance = true;
            sliceEnd = now;
            silence = timer.in(0, this::listen);
        } else {
            boolean isAnswerLate = answerLeft <= 0;
            String silent = Nanos.text(Duration.ofNanos(isAnswerLate ? answerTimeout : silenceTimeout));
            Connection.leave(position);
            broken(Failure.made(Status.UNAVAILABLE, "the watch was silent for " + silent, null), isAnswerLate);
        }
    }

    private void broken(PausewatchException error, boolean awaitsAnswer) {
        if (!ended) {
            cancel();
            long silentFor = readingStopped ? 0 : timer.now() - lastMessageAt;
            reader.broken(error, silentFor >= heartbeat ? silentFor : 0, awaitsAnswer);
        }
    }

    private static List<PauseState> confirmed(Confirmation confirmation) {
        List<PauseState> states = new ArrayList<>(confirmation.getPauseStatesCount());
        for (dev.pausewatch.v1.PauseState state : confirmation.getPauseStatesList()) {
            states.add(Wire.state(state));
        }
        return states;
    }
}
