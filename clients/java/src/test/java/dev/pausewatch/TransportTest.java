package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.MethodDescriptor;
import io.grpc.TlsChannelCredentials;
import io.grpc.TlsServerCredentials;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Interceptors, credentials and channels of one's own, and what a program is told of the link. */
class TransportTest {
    @TempDir
    Path directory;

    /** Keeps the names of the methods that are called. */
    private static final class Names implements ClientInterceptor {
        final List<String> called = new CopyOnWriteArrayList<>();

        @Override
        public <Q, R> ClientCall<Q, R> interceptCall(MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
            called.add(String.valueOf(method.getBareMethodName()));
            return next.newCall(method, options);
        }
    }

    @Test
    void interceptorsAreAroundCallsAndStreamsAndTheChannelCanBeChanged() throws Exception {
        Names names = new Names();
        List<String> customized = new ArrayList<>();
        try (FakeServer server = new FakeServer();
                Client client = Client.open(Config.builder()
                        .address(server.address())
                        .interceptors(names)
                        .channel(builder -> customized.add(builder.maxInboundMessageSize(1 << 20)
                                .getClass()
                                .getSimpleName()))
                        .build());
                PausableDeadline deadline = client.deadline("t", Duration.ofMinutes(1))) {
            server.nextWatch().request();
            client.getPauseState(deadline.threadId());
        }
        assertTrue(names.called.containsAll(List.of("Watch", "GetPauseState")), names.called::toString);
        assertEquals(1, customized.size());
    }

    /** Throws at some of the calls of a method, which it counts. */
    record Failing(String name, Predicate<Integer> at, AtomicInteger calls) implements ClientInterceptor {
        @Override
        public <Q, R> ClientCall<Q, R> interceptCall(MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
            if (name.equals(method.getBareMethodName()) && at.test(calls.incrementAndGet())) {
                throw new IllegalStateException("the interceptor's own");
            }
            return next.newCall(method, options);
        }
    }

    @Test
    void anInterceptorThatThrowsAtARetryEndsTheCall() {
        Failing failing = new Failing("GetPauseState", call -> call > 1, new AtomicInteger());
        Config config = Config.builder()
                .address("127.0.0.1:1")
                .interceptors(failing)
                .retries(5)
                .build();
        try (Client client = Client.open(config)) {
            ExecutionException thrown = assertThrows(
                    ExecutionException.class,
                    () -> client.async().getPauseState("t").get(10, TimeUnit.SECONDS));
            assertEquals("the interceptor's own", thrown.getCause().getMessage());
        }
    }

    @Test
    void aWatchOfAllOnAClosedClientOpensNoStream() throws Exception {
        Names names = new Names();
        try (FakeServer server = new FakeServer()) {
            Client client = Client.open(Config.builder()
                    .address(server.address())
                    .interceptors(names)
                    .build());
            PausableDeadline deadline = client.deadline("t", Duration.ofMillis(100));
            PausableDeadline.Pause pause = deadline.pause();
            server.nextWatch();
            client.close();
            List<String> before = List.copyOf(names.called);
            assertThrows(IllegalStateException.class, () -> client.watchAll().open());
            pause.close();
            // On the thread that would open the stream.
            deadline.expired().get(10, TimeUnit.SECONDS);
            assertEquals(before, names.called);
        }
    }

    @Test
    void anInterceptorThatThrowsDoesNotEndTheWatch() throws Exception {
        Failing watches = new Failing("Watch", call -> call == 2, new AtomicInteger());
        try (FakeServer server = new FakeServer();
                Client client = Client.open(Config.builder()
                        .address(server.address())
                        .interceptors(watches)
                        .build());
                PausableDeadline deadline = client.deadline("t", Duration.ofHours(1))) {
            FakeServer.WatchCall stream = server.nextWatch();
            stream.request();
            stream.state(deadline.threadId(), 1);
            stream.complete();
            stream.observer().onCompleted();
            server.nextWatch().request();
            assertEquals(3, watches.calls().get());
        }
    }

    @Test
    void certificatesNeedNoFiles() throws Exception {
        Certificates certificates = new Certificates(directory);
        Path authority = certificates.authority();
        Certificates.Signed own = certificates.signed("server");
        Certificates.Signed mine = certificates.signed("client");
        TlsServerCredentials.Builder credentials = TlsServerCredentials.newBuilder()
                .keyManager(own.cert().toFile(), own.key().toFile())
                .trustManager(authority.toFile())
                .clientAuth(TlsServerCredentials.ClientAuth.REQUIRE);
        try (FakeServer server = new FakeServer(credentials.build());
                InputStream cert = Files.newInputStream(mine.cert());
                InputStream key = Files.newInputStream(mine.key());
                InputStream trusted = Files.newInputStream(authority)) {
            Config.Builder config = Config.fromEnv(
                            variable -> variable.equals("PAUSEWATCH_TLS_CA") ? "/nowhere/ca.pem" : null)
                    .address("https://" + server.address())
                    .credentials(TlsChannelCredentials.newBuilder()
                            .keyManager(cert, key)
                            .trustManager(trusted)
                            .build());
            try (Client client = Client.open(config.build())) {
                assertEquals(0, client.getPauseState("t").count());
            }
            assertThrows(ConfigException.class, () -> config.tlsCa(authority).build());
        }
        Config.Builder plain = Config.builder().credentials(TlsChannelCredentials.create());
        assertTrue(
                assertThrows(ConfigException.class, plain::build).getMessage().contains("https://"));
    }

    @Test
    void theListenerGetsTheLinkAndTheEndOfTheGrace() throws Exception {
        BlockingQueue<Link> told = new LinkedBlockingQueue<>();
        DeadlineOptions options = DeadlineOptions.defaults().withDisconnectGrace(Duration.ofMillis(100));
        try (FakeServer server = new FakeServer();
                Client client = Client.open(Config.builder()
                        .address(server.address())
                        .onLink(link -> {
                            told.add(link);
                            throw new IllegalStateException("the listener's own");
                        })
                        .build());
                PausableDeadline deadline = client.deadline("t", Duration.ofHours(1), options)) {
            FakeServer.WatchCall stream = server.nextWatch();
            stream.request();
            stream.state(deadline.threadId(), 1);
            stream.complete();
            Link connected = next(told);
            assertEquals(new Link(Link.State.CONNECTED, Optional.empty(), Optional.empty()), connected);
            server.stop();
            Link lost = next(told);
            Link spent = next(told);
            assertEquals(
                    List.of(Link.State.DISCONNECTED, Link.State.GRACE_SPENT), List.of(lost.state(), spent.state()));
            assertEquals(lost.since(), spent.since());
            assertTrue(!lost.since().orElseThrow().isAfter(Instant.now())
                    && lost.error().isPresent());
            server.restart();
            FakeServer.WatchCall again = server.nextWatch();
            again.request();
            again.state("t", 1);
            again.complete();
            assertEquals(connected, next(told));
        }
    }

    private static Link next(BlockingQueue<Link> told) throws InterruptedException {
        return Optional.ofNullable(told.poll(10, TimeUnit.SECONDS)).orElseThrow();
    }
}
