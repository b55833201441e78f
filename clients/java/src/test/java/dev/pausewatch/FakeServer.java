package dev.pausewatch;

import dev.pausewatch.v1.ElicitationServiceGrpc;
import dev.pausewatch.v1.GetPauseStateRequest;
import dev.pausewatch.v1.GetPauseStateResponse;
import dev.pausewatch.v1.IncrementElicitationRequest;
import dev.pausewatch.v1.IncrementElicitationResponse;
import dev.pausewatch.v1.SnapshotComplete;
import dev.pausewatch.v1.WatchPauseStateRequest;
import dev.pausewatch.v1.WatchPauseStateResponse;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerCredentials;
import io.grpc.ServerInterceptor;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
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
    final List<String> authorizations = new CopyOnWriteArrayList<>();
    final BlockingQueue<WatchCall> watches = new LinkedBlockingQueue<>();
    final CountDownLatch cancelled = new CountDownLatch(1);
    volatile BiConsumer<Integer, StreamObserver<IncrementElicitationResponse>> onIncrement = (number, answer) ->
            answer(answer, IncrementElicitationResponse.newBuilder().setCount(1).build());
    volatile Function<String, dev.pausewatch.v1.PauseState> onGet = threadId -> state(threadId, 0, false);

    private final ServerCredentials credentials;
    private Server server;
    private int port;

    /** A stream that a client has opened. */
    record WatchCall(WatchPauseStateRequest request, ServerCallStreamObserver<WatchPauseStateResponse> observer) {
        void state(String threadId, long revision) {
            state(threadId, revision, false);
        }

        void state(String threadId, long revision, boolean paused) {
            observer.onNext(WatchPauseStateResponse.newBuilder()
                    .setPauseState(FakeServer.state(threadId, revision, paused))
                    .build());
        }

        void complete() {
            observer.onNext(WatchPauseStateResponse.newBuilder()
                    .setSnapshotComplete(SnapshotComplete.getDefaultInstance())
                    .build());
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
        public void watchPauseState(WatchPauseStateRequest request, StreamObserver<WatchPauseStateResponse> observer) {
            ServerCallStreamObserver<WatchPauseStateResponse> stream =
                    (ServerCallStreamObserver<WatchPauseStateResponse>) observer;
            stream.setOnCancelHandler(() -> {});
            watches.add(new WatchCall(request, stream));
        }
    }
}
