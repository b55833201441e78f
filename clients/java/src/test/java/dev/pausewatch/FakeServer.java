package dev.pausewatch;

import dev.pausewatch.v1.Confirmation;
import dev.pausewatch.v1.DecrementElicitationRequest;
import dev.pausewatch.v1.DecrementElicitationResponse;
import dev.pausewatch.v1.ElicitationServiceGrpc;
import dev.pausewatch.v1.GetPauseStateRequest;
import dev.pausewatch.v1.GetPauseStateResponse;
import dev.pausewatch.v1.IncrementElicitationRequest;
import dev.pausewatch.v1.IncrementElicitationResponse;
import dev.pausewatch.v1.Refusal;
import dev.pausewatch.v1.SnapshotComplete;
import dev.pausewatch.v1.WatchRequest;
import dev.pausewatch.v1.WatchResponse;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerCredentials;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Function;

/** A coordinator in this process that does what the test says. */
final class FakeServer implements AutoCloseable {
    final List<IncrementElicitationRequest> increments = new CopyOnWriteArrayList<>();
    final List<DecrementElicitationRequest> decrements = new CopyOnWriteArrayList<>();
    final List<String> authorizations = new CopyOnWriteArrayList<>();
    final BlockingQueue<WatchCall> watches = new LinkedBlockingQueue<>();
    final CountDownLatch cancelled = new CountDownLatch(1);
    volatile BiConsumer<Integer, StreamObserver<IncrementElicitationResponse>> onIncrement = (number, answer) ->
            answer(answer, IncrementElicitationResponse.newBuilder().setCount(1).build());
    volatile BiConsumer<Integer, StreamObserver<DecrementElicitationResponse>> onDecrement =
            (number, answer) -> answer(answer, DecrementElicitationResponse.getDefaultInstance());
    volatile Function<String, dev.pausewatch.v1.PauseState> onGet = threadId -> state(threadId, 0, false);

    private ServerCredentials credentials;
    private Server server;
    private int port;

    /** A stream that a client has opened. */
    static final class WatchCall {
        private final BlockingQueue<WatchRequest> requests = new LinkedBlockingQueue<>();
        private final ServerCallStreamObserver<WatchResponse> observer;
        private int answered;

        WatchCall(ServerCallStreamObserver<WatchResponse> observer) {
            this.observer = observer;
        }

        ServerCallStreamObserver<WatchResponse> observer() {
            return observer;
        }

        /** The next request. */
        WatchRequest request() throws InterruptedException {
            WatchRequest request = requests.poll(10, TimeUnit.SECONDS);
            if (request == null) {
                throw new AssertionError("nothing was requested");
            }
            return request;
        }

        /** Whether there was no further request. */
        boolean isQuiet() {
            return requests.isEmpty();
        }

        void state(String threadId, long revision) {
            state(threadId, revision, false);
        }

        void state(String threadId, long revision, boolean paused) {
            observer.onNext(WatchResponse.newBuilder()
                    .setPauseState(FakeServer.state(threadId, revision, paused))
                    .build());
        }

        /** The request is answered. */
        void complete() {
            answered++;
            observer.onNext(WatchResponse.newBuilder()
                    .setSnapshotComplete(SnapshotComplete.newBuilder().setRequests(answered))
                    .build());
        }

        /** Answers the next request, which is to confirm threads: they are as {@code confirmed} says. */
        List<String> confirm(Function<String, dev.pausewatch.v1.PauseState> confirmed) throws InterruptedException {
            List<String> threadIds = request().getConfirmList();
            Confirmation.Builder confirmation = Confirmation.newBuilder();
            threadIds.forEach(threadId -> confirmation.addPauseStates(confirmed.apply(threadId)));
            observer.onNext(
                    WatchResponse.newBuilder().setConfirmation(confirmation).build());
            complete();
            return threadIds;
        }

        void refuse(Status.Code code, String reason, Duration retryAfter, String... threadIds) {
            answered++;
            Refusal refusal = Refusal.newBuilder()
                    .setRequest(answered)
                    .setCode(code.value())
                    .setReason(reason)
                    .addAllThreadIds(List.of(threadIds))
                    .setRetryAfter(com.google.protobuf.Duration.newBuilder()
                            .setSeconds(retryAfter.getSeconds())
                            .setNanos(retryAfter.getNano()))
                    .build();
            observer.onNext(WatchResponse.newBuilder().setRefusal(refusal).build());
        }
    }

    FakeServer() {
        this(InsecureServerCredentials.create());
    }

    FakeServer(ServerCredentials credentials) {
        this.credentials = credentials;
        start(0);
    }

    int port() {
        return port;
    }

    String address() {
        return "127.0.0.1:" + port();
    }

    /** Breaks all connections, and is gone. */
    void stop() {
        server.shutdownNow();
        try {
            server.awaitTermination();
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    /** Listens where it listened before. */
    void restart() {
        restart(credentials);
    }

    void restart(ServerCredentials renewed) {
        credentials = renewed;
        start(port);
    }

    WatchCall nextWatch() throws InterruptedException {
        WatchCall call = watches.poll(10, TimeUnit.SECONDS);
        if (call == null) {
            throw new AssertionError("no stream was opened");
        }
        return call;
    }

    @Override
    public void close() {
        stop();
    }

    static dev.pausewatch.v1.PauseState state(String threadId, long revision, boolean paused) {
        return dev.pausewatch.v1.PauseState.newBuilder()
                .setThreadId(threadId)
                .setRevision(revision)
                .setPaused(paused)
                .build();
    }

    static <R> void answer(StreamObserver<R> observer, R response) {
        observer.onNext(response);
        observer.onCompleted();
    }

    private void start(int wanted) {
        NettyServerBuilder builder =
                NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", wanted), credentials);
        try {
            server = builder.permitKeepAliveTime(1, TimeUnit.SECONDS)
                    .intercept(new Headers())
                    .addService(new Service())
                    .build()
                    .start();
            port = server.getPort();
        } catch (IOException unable) {
            throw new UncheckedIOException(unable);
        }
    }

    private final class Headers implements ServerInterceptor {
        @Override
        public <Q, R> ServerCall.Listener<Q> interceptCall(
                ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
            String authorization = headers.get(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER));
            authorizations.add(String.valueOf(authorization));
            return next.startCall(call, headers);
        }
    }

    private final class Service extends ElicitationServiceGrpc.ElicitationServiceImplBase {
        @Override
        public void incrementElicitation(
                IncrementElicitationRequest request, StreamObserver<IncrementElicitationResponse> answer) {
            ((ServerCallStreamObserver<IncrementElicitationResponse>) answer).setOnCancelHandler(cancelled::countDown);
            increments.add(request);
            onIncrement.accept(increments.size(), answer);
        }

        @Override
        public void decrementElicitation(
                DecrementElicitationRequest request, StreamObserver<DecrementElicitationResponse> answer) {
            decrements.add(request);
            onDecrement.accept(decrements.size(), answer);
        }

        @Override
        public void getPauseState(GetPauseStateRequest request, StreamObserver<GetPauseStateResponse> answer) {
            try {
                answer(
                        answer,
                        GetPauseStateResponse.newBuilder()
                                .setPauseState(onGet.apply(request.getThreadId()))
                                .build());
            } catch (StatusRuntimeException refused) {
                answer.onError(refused);
            }
        }

        @Override
        public StreamObserver<WatchRequest> watch(StreamObserver<WatchResponse> observer) {
            ServerCallStreamObserver<WatchResponse> stream = (ServerCallStreamObserver<WatchResponse>) observer;
            stream.setOnCancelHandler(() -> {});
            WatchCall call = new WatchCall(stream);
            watches.add(call);
            return new StreamObserver<>() {
                @Override
                public void onNext(WatchRequest request) {
                    call.requests.add(request);
                }

                @Override
                public void onError(Throwable cancelled) {}

                @Override
                public void onCompleted() {}
            };
        }
    }
}
