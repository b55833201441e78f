package dev.pausewatch;

import dev.pausewatch.v1.WatchRequest;
import dev.pausewatch.v1.WatchResponse;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A channel whose streams do what the test says, on the thread of the test. */
final class FakeChannel extends ManagedChannel {
    final List<Stream> streams = new ArrayList<>();

    /** A call of Watch. */
    static final class Stream {
        final Deque<WatchRequest> requests = new ArrayDeque<>();
        int requested;
        boolean cancelled;
        private ClientCall.Listener<Object> answers;

        void tell(WatchResponse response) {
            answers.onMessage(response);
        }

        void end(Status status) {
            answers.onClose(status, new Metadata());
        }
    }

    /** The stream that was opened last. */
    Stream last() {
        return streams.get(streams.size() - 1);
    }

    @Override
    public <Q, R> ClientCall<Q, R> newCall(MethodDescriptor<Q, R> method, CallOptions options) {
        Stream stream = new Stream();
        streams.add(stream);
        return new ClientCall<>() {
            @Override
            @SuppressWarnings("unchecked")
            public void start(Listener<R> answers, Metadata headers) {
                stream.answers = (Listener<Object>) answers;
            }

            @Override
            public void request(int messages) {
                stream.requested += messages;
            }

            @Override
            public void cancel(String message, Throwable cause) {
                stream.cancelled = true;
            }

            @Override
            public void halfClose() {}

            @Override
            public void sendMessage(Q message) {
                stream.requests.add((WatchRequest) message);
            }
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
