package dev.pausewatch;

import dev.pausewatch.v1.WatchRequest;
import io.grpc.ChannelCredentials;
import io.grpc.ManagedChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/** What the clients of one connection share, and what is to be closed with it. */
final class Core implements AutoCloseable {
    private final SystemTimer timer = new SystemTimer();
    private final Connection connection;
    private final Calls calls;
    private final Set<AutoCloseable> open = ConcurrentHashMap.newKeySet();
    /** Those that outlive this client; guarded by itself. */
    private final Set<PausableDeadline> deadlines = new HashSet<>();
    /** By disconnect grace. */
    private final Map<Duration, Follower> followers = new ConcurrentHashMap<>();

    /** What opens and closes elicitations. */
    private final Set<CompletableFuture<?>> finishing = ConcurrentHashMap.newKeySet();

    private final Duration deadline;
    private final Consumer<Link> onLink;
    private volatile boolean closing;
    private volatile boolean closed;

    Core(Config config) {
        // In random order, so that clients share the replicas evenly.
        List<Address> addresses = new ArrayList<>(config.address().each());
        Collections.shuffle(addresses);
        List<Supplier<ManagedChannel>> replicas = new ArrayList<>();
        // Once: a move must not depend on what is in the files by then.
        ChannelCredentials credentials = Transport.credentials(config, addresses);
        addresses.forEach(each -> replicas.add(() -> Transport.channel(config, each, credentials)));
        connection = new Connection(replicas, config.address().toString(), config.tokenSource(), Callbacks.EXECUTOR);
        calls = new Calls(connection, timer);
        deadline = config.deadline();
        onLink = config.onLink();
    }

    Timer timer() {
        return timer;
    }

    Calls calls() {
        return calls;
    }

    WatchLink link(WatchListener listener, WatchRequest setup, Calls.RetryPolicy policy) {
        WatchLink.Environment environment = new WatchLink.Environment(connection, timer, policy.deadline());
        return new WatchLink(environment, listener, setup);
    }

    Follower follower(Duration grace, Calls.RetryPolicy policy) {
        checkOpen();
        return followers.computeIfAbsent(
                grace,
                missing -> new Follower(
                        timer,
                        Nanos.of(grace),
                        new LinkReporter(timer, Nanos.of(grace), onLink),
                        follower -> link(follower, WatchRequest.getDefaultInstance(), policy)));
    }

    /** Makes a deadline, which runs on when this client is closed; it calls what it was made with when it ends. */
    PausableDeadline started(Function<Consumer<PausableDeadline>, PausableDeadline> make) {
        synchronized (deadlines) {
            checkOpen();
            PausableDeadline deadline = make.apply(this::ended);
            deadlines.add(deadline);
            return deadline;
        }
    }

    private void ended(PausableDeadline deadline) {
        synchronized (deadlines) {
            deadlines.remove(deadline);
            shutDownTimer();
        }
    }

    /** With the lock. The timer goes on until the last deadline has ended. */
    private void shutDownTimer() {
        if (closed && deadlines.isEmpty()) {
            timer.shutdown();
        }
    }

    /** Makes something that ends with this client, unless it ends before: it then calls what it was made with. */
    <T extends AutoCloseable> T opened(Function<Runnable, T> make) {
        checkOpen();
        AutoCloseable[] made = new AutoCloseable[1];
        T closeable = make.apply(() -> open.remove(made[0]));
        made[0] = closeable;
        open.add(closeable);
        // Looked at after it was added: a close either finds it, or is seen here.
        if (closed) {
            end(closeable);
            checkOpen();
        }
        return closeable;
    }

    /** Begins work that opens or closes an elicitation: {@link #close()} waits for it, for one deadline at most. */
    <T> CompletableFuture<T> finishing(Supplier<CompletableFuture<T>> begin) {
        CompletableFuture<Void> begun = finishing(new CompletableFuture<Void>());
        try {
            return finishing(begin.get());
        } finally {
            begun.complete(null);
        }
    }

    private <T> CompletableFuture<T> finishing(CompletableFuture<T> work) {
        finishing.add(work);
        work.whenComplete((done, thrown) -> finishing.remove(work));
        return work;
    }

    /** Waits even if this thread is interrupted: that is when blocks end early. */
    private void finish() {
        long end = System.nanoTime() + Nanos.of(deadline);
        boolean interrupted = false;
        for (Optional<CompletableFuture<?>> next = first(); next.isPresent(); next = first()) {
            try {
                next.get().get(end - System.nanoTime(), TimeUnit.NANOSECONDS);
            } catch (InterruptedException again) {
                interrupted = true;
            } catch (TimeoutException late) {
                break;
            } catch (ExecutionException | CancellationException over) {
                finishing.remove(next.get());
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private Optional<CompletableFuture<?>> first() {
        finishing.removeIf(CompletableFuture::isDone);
        return finishing.stream().findFirst();
    }

    private void checkOpen() {
        if (closed) {
            throw closed();
        }
    }

    /** Whether it is being closed, or is: then no hold is opened any more. */
    boolean isClosing() {
        return closing;
    }

    static IllegalStateException closed() {
        return new IllegalStateException("the client is closed");
    }

    private static void end(AutoCloseable closeable) {
        try {
            closeable.close();
        } catch (Exception impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    @Override
    public void close() {
        closing = true;
        finish();
        synchronized (deadlines) {
            closed = true;
        }
        open.forEach(Core::end);
        // Before the connection: its end is no break that has to be mended.
        followers.values().forEach(Follower::close);
        connection.close();
        synchronized (deadlines) {
            shutDownTimer();
        }
    }
}
