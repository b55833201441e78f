package dev.pausewatch.bench;

import dev.pausewatch.Address;
import dev.pausewatch.Client;
import dev.pausewatch.v1.ElicitationServiceGrpc;
import dev.pausewatch.v1.ElicitationServiceGrpc.ElicitationServiceBlockingStub;
import dev.pausewatch.v1.GetPauseStateRequest;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.util.Arrays;
import java.util.Locale;

/** What this library adds to a bare stub's call: {@code GetPauseState}, a block of one and a block of the other in turn, medians. */
public final class Bench {
    private static final int BLOCK = 100;
    private static final int WARM_UP_BLOCKS = 40;
    private static final int BLOCKS = 60;
    private static final String THREAD_ID = "bench";

    private Bench() {}

    /** Measures against the server at the address that is its argument. */
    public static void main(String[] arguments) {
        Address.Tcp address = (Address.Tcp) Address.parse(arguments[0]);
        ManagedChannel channel = NettyChannelBuilder.forAddress(
                        address.host(), address.port(), InsecureChannelCredentials.create())
                .build();
        ElicitationServiceBlockingStub stub = ElicitationServiceGrpc.newBlockingStub(channel);
        GetPauseStateRequest request =
                GetPauseStateRequest.newBuilder().setThreadId(THREAD_ID).build();
        try (Client client = Client.open(arguments[0])) {
            long[] stubNanos = new long[BLOCKS * BLOCK];
            long[] clientNanos = new long[BLOCKS * BLOCK];
            for (int block = -WARM_UP_BLOCKS; block < BLOCKS; block++) {
                int first = Math.max(0, block) * BLOCK;
                measure(() -> stub.getPauseState(request), stubNanos, first);
                measure(() -> client.getPauseState(THREAD_ID), clientNanos, first);
            }
            double stubMicros = median(stubNanos);
            double clientMicros = median(clientNanos);
            System.out.printf(
                    Locale.ROOT,
                    "{\"client\": \"java\", \"calls\": %d, \"stub_us\": %.1f, \"client_us\": %.1f}%n",
                    BLOCKS * BLOCK,
                    stubMicros,
                    clientMicros);
            System.err.printf(
                    Locale.ROOT, "the client adds %.3f ms to the bare stub%n", (clientMicros - stubMicros) / 1_000);
        }
        channel.shutdownNow();
    }

    private static void measure(Runnable call, long[] nanos, int first) {
        for (int i = first; i < first + BLOCK; i++) {
            long start = System.nanoTime();
            call.run();
            nanos[i] = System.nanoTime() - start;
        }
    }

    private static double median(long[] nanos) {
        Arrays.sort(nanos);
        return nanos[nanos.length / 2] / 1e3;
    }
}
