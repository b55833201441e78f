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

/**
 * One stream of states, from its opening to its break. Everything happens on the timer's thread.
 *
 * <p>1. A stream without a message for two heartbeats counts as dead (for two and a half, if the server says how often they come), even if TCP reports no error; before its first message, one deadline of a call is enough.
 *
 * <p>2. While it owes an answer that a timeout waits for, it is dead after a shorter silence.
 *
 * <p>3. It breaks once, and says nothing afterwards; cancelled, it says nothing at all.
 *
 * <p>4. While its reader has no room, it stands: it asks for no message, and is not silent but unheard. That its connection lives is seen by the
 * pings meanwhile.
 */
final class WatchStream implements ClientResponseObserver<WatchRequest, WatchResponse> {
    /**
     * The time within which a server promises a heartbeat that does not say its own. A connection that ends after a longer silence was dead during it: its end is what a
     * ping without an answer, or this library, has made of the silence.
     */
    private static final long HEARTBEAT_NANOS = TimeUnit.SECONDS.toNanos(15);

    /** The longest silence then. */
    private static final long SILENCE_NANOS = 2 * HEARTBEAT_NANOS;

    /** The shortest interval that a server may say. */
    private static final long LEAST_HEARTBEAT_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    private final Connection connection;
    private final Timer timer;
    private final Reader reader;
    private final Connection.Position position;
    private ClientCall<WatchRequest, WatchResponse> call;
    private ClientCallStreamObserver<WatchRequest> messages;
    private boolean stands;
    private long heard;
    private long patience;
    /** How often the server sends a heartbeat, and the longest silence of a stream that works. */
    private long heartbeat = HEARTBEAT_NANOS;

    private long longestSilence = SILENCE_NANOS;
    /** Since when it owes an answer, and how long it may be silent then. */
    private long owedSince;

    private long owedPatience = Nanos.MAX;
    private boolean lastChance;
    private Timer.Alarm silence = Timer.Alarm.NONE;
    private boolean over;

    /** Who is told. */
    interface Reader {
        void state(PauseState state);

        /** Some of the states that the request asks for. */
        void confirmed(List<PauseState> states);

        /** The request is answered. */
        void answered();

        /** The request was refused. */
        void refused(Refusal refusal);

        /**
         * The stream broke, or could not be opened.
         *
         * @param silentFor nanoseconds since its last message, if it died in silence
         * @param owesAnswer it was given up because it owed an answer
         */
        void broken(PausewatchException error, long silentFor, boolean owesAnswer);

        /** Whether more should come now; if not, {@link WatchStream#readOn} is called when there is. */
        boolean hasRoom();
    }

    WatchStream(Connection connection, Timer timer, Reader reader) {
        this.connection = connection;
        this.timer = timer;
        this.reader = reader;
        this.position = connection.now();
    }

    /** How often the client had moved when it was opened. */
    int moves() {
        return position.moves();
    }

    /** Opens it with a token, if it has one that may change; {@code firstAnswer} is how long that may take. */
    void open(Duration firstAnswer, Optional<String> token) {
        patience = Nanos.of(firstAnswer);
        if (connection.several()) {
            patience = Math.min(patience, Connection.NO_ANSWER_NANOS);
        }
        heard = timer.now();
        listen();
        call = Connection.ready(position)
                .newCall(
                        ElicitationServiceGrpc.getWatchMethod(),
                        Connection.with(token, CallOptions.DEFAULT.withExecutor(timer)));
        ClientCalls.asyncBidiStreamingCall(call, this);
    }

    void send(WatchRequest request) {
        messages.onNext(request);
    }

    /** It owes an answer: from now on a silence of {@code nanos} is too long. Does nothing if it owes one already. */
    void hurry(long nanos) {
        if (owedPatience == Nanos.MAX) {
            owedSince = timer.now();
            owedPatience = nanos;
            silence.cancel();
            listen();
        }
    }

    /** It owes no answer any more. */
    void calm() {
        owedPatience = Nanos.MAX;
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
    public void beforeStart(ClientCallStreamObserver<WatchRequest> messages) {
        this.messages = messages;
        messages.disableAutoRequestWithInitial(1);
    }

    @Override
    public void onNext(WatchResponse message) {
        if (over) {
            return;
        }
        heard = timer.now();
        patience = longestSilence;
        switch (message.getEventCase()) {
            case PAUSE_STATE -> reader.state(Wire.state(message.getPauseState()));
            case SNAPSHOT_COMPLETE -> reader.answered();
            case CONFIRMATION -> reader.confirmed(confirmed(message.getConfirmation()));
            case REFUSAL -> reader.refused(message.getRefusal());
            // An event of a newer server is a sign of life.
            case EVENT_NOT_SET -> {}
            case HEARTBEAT -> beat(message.getHeartbeat());
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

    private void beat(Heartbeat message) {
        long every = Nanos.of(Wire.duration(message.getInterval()));
        boolean says = every > 0;
        heartbeat = says ? Math.max(every, LEAST_HEARTBEAT_NANOS) : HEARTBEAT_NANOS;
        longestSilence = says ? heartbeat / 2 * 5 : SILENCE_NANOS;
        patience = longestSilence;
        silence.cancel();
        listen();
    }

    @Override
    public void onError(Throwable thrown) {
        fail(connection.failure(thrown));
    }

    @Override
    public void onCompleted() {
        fail(Failure.made(Status.UNAVAILABLE, "the watch ended", null));
    }

    /** It is of no use any more. */
    void fail(PausewatchException error) {
        broken(error, false);
    }

    private void listen() {
        long owedLeft = Math.max(heard - timer.now(), owedSince - timer.now()) + owedPatience;
        long left = Math.min(heard + patience - timer.now(), owedLeft);
        if (left > 0) {
            lastChance = false;
            silence = timer.in(left, this::listen);
        } else if (!lastChance) {
            // This process may have been late itself: what has come by now is heard first.
            lastChance = true;
            silence = timer.in(0, this::listen);
        } else {
            boolean owes = owedLeft <= 0;
            String silent = Nanos.text(Duration.ofNanos(owes ? owedPatience : patience));
            Connection.leave(position);
            broken(Failure.made(Status.UNAVAILABLE, "the watch was silent for " + silent, null), owes);
        }
    }

    private void broken(PausewatchException error, boolean owesAnswer) {
        if (!over) {
            cancel();
            long silentFor = stands ? 0 : timer.now() - heard;
            reader.broken(error, silentFor >= heartbeat ? silentFor : 0, owesAnswer);
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
