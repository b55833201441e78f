package dev.pausewatch.bench;

import dev.pausewatch.Client;
import dev.pausewatch.Config;
import dev.pausewatch.Link;
import dev.pausewatch.PausableDeadline;
import dev.pausewatch.v1.WatchRequest;
import dev.pausewatch.v1.WatchResponse;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * How late 1,000 deadlines are that run out together, and which part of that is whose: Java's own timers for the same moment,
 * until the last request for a confirmation is sent, until its answer has arrived, until the program was notified.
 */
public final class Together {
    private static final int COUNT = 1_000;
    private static final Duration LIMIT = Duration.ofSeconds(3);

    private Together() {}

    /** Measures against the server at the address that is its first argument, as many times as the second one says. */
    public static void main(String[] arguments) throws Exception {
        AtomicLong asked = new AtomicLong();
        AtomicLong answered = new AtomicLong();
        AtomicInteger disconnects = new AtomicInteger();
        Config config = Config.builder()
                .address(arguments[0])
                .interceptors(new Confirmations(asked, answered))
                .onLink(link -> disconnects.addAndGet(link.state() == Link.State.DISCONNECTED ? 1 : 0))
                .build();
        ScheduledExecutorService bare = Executors.newSingleThreadScheduledExecutor(body -> {
            Thread thread = new Thread(body, "bare");
            thread.setDaemon(true);
            return thread;
        });
        try (Client client = Client.open(config)) {
            for (int round = 0; round < Integer.parseInt(arguments[1]); round++) {
                int before = disconnects.get();
                long end = System.nanoTime() + LIMIT.toNanos();
                AtomicLong bareLast = new AtomicLong();
                AtomicLong last = new AtomicLong();
                List<PausableDeadline> deadlines = new ArrayList<>();
                List<CompletableFuture<Void>> told = new ArrayList<>();
                for (int number = 0; number < COUNT; number++) {
                    Duration limit = Duration.ofNanos(end - System.nanoTime());
                    bare.schedule(
                            () -> bareLast.accumulateAndGet(System.nanoTime(), Math::max),
                            limit.toNanos(),
                            TimeUnit.NANOSECONDS);
                    PausableDeadline deadline = client.deadline("together-" + number, limit);
                    deadlines.add(deadline);
                    told.add(deadline.expired().thenRun(() -> last.set(System.nanoTime())));
                }
                CompletableFuture.allOf(told.toArray(CompletableFuture[]::new)).get();
                deadlines.forEach(PausableDeadline::close);
                System.out.printf(
                        Locale.ROOT,
                        "{\"client\": \"java\", \"deadlines\": %d, \"bare_ms\": %.1f, \"asked_ms\": %.1f, "
                                + "\"answered_ms\": %.1f, \"late_ms\": %.1f, \"disconnects\": %d}%n",
                        COUNT,
                        millis(bareLast.get() - end),
                        millis(asked.get() - end),
                        millis(answered.get() - end),
                        millis(last.get() - end),
                        disconnects.get() - before);
            }
        }
    }

    private static double millis(long nanos) {
        return nanos / 1e6;
    }

    /** Notes when the last confirmation was requested, and when it arrived. */
    private record Confirmations(AtomicLong asked, AtomicLong answered) implements ClientInterceptor {
        @Override
        public <Q, R> ClientCall<Q, R> interceptCall(MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
            return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
                @Override
                public void start(Listener<R> listener, Metadata headers) {
                    super.start(
                            new SimpleForwardingClientCallListener<>(listener) {
                                @Override
                                public void onMessage(R message) {
                                    if (message instanceof WatchResponse event && event.hasConfirmation()) {
                                        answered.set(System.nanoTime());
                                    }
                                    super.onMessage(message);
                                }
                            },
                            headers);
                }

                @Override
                public void sendMessage(Q message) {
                    if (message instanceof WatchRequest request && request.getConfirmCount() > 0) {
                        asked.set(System.nanoTime());
                    }
                    super.sendMessage(message);
                }
            };
        }
    }
}
