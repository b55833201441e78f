package dev.pausewatch;

import dev.pausewatch.v1.WatchRequest;
import io.grpc.ChannelCredentials;
import io.grpc.ManagedChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
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
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/** The state that the clients of one connection share, and the resources that are closed with the connection. */
final class Core implements AutoCloseable {
    private final SystemTimer timer = new SystemTimer();
    private final Connection connection;
    private final Calls calls;
    private final Set<AutoCloseable> open = ConcurrentHashMap.newKeySet();
    /** The running deadlines, which outlive this client; guarded by itself. */
    private final Set<PausableDeadline> deadlines = new HashSet<>();
    /** Those that follow a thread, by disconnect grace; guarded by {@link #deadlines}, so that a new deadline gets none that has ended. */
    private final Map<Duration, Follower> followers = new HashMap<>();

    /** The calls under way that open and close elicitations. */
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
        // Read once: a move must not depend on the contents of the files at that time.
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
        return new WatchLink(connection, timer, policy.deadline(), listener, setup);
    }

    /**
     * Makes a deadline, which continues after this client is closed. {@code make} receives its follower, and a callback for the
     * end of the deadline.
     */
    PausableDeadline started(
            Duration grace,
            Calls.RetryPolicy policy,
            BiFunction<Follower, Consumer<PausableDeadline>, PausableDeadline> make) {
        synchronized (deadlines) {
            checkOpen();
            Follower follower = followers.computeIfAbsent(grace, missing -> follower(grace, policy));
            PausableDeadline deadline = make.apply(follower, this::ended);
            deadlines.add(deadline);
            return deadline;
        }
    }

    private Follower follower(Duration grace, Calls.RetryPolicy policy) {
        return new Follower(
                timer,
                Nanos.of(grace),
                new LinkReporter(timer, Nanos.of(grace), onLink),
                listener -> link(listener, WatchRequest.getDefaultInstance(), policy),
                idle -> end(grace, idle));
    }

    private void end(Duration grace, Follower idle) {
        synchronized (deadlines) {
            if (idle.isIdle() && followers.remove(grace, idle)) {
                idle.close();
            }
        }
    }

    private void ended(PausableDeadline deadline) {
        synchronized (deadlines) {
            deadlines.remove(deadline);
            shutDownTimer();
        }
    }

    /** Requires the lock of {@link #deadlines}. The timer runs until the last deadline has ended, without a thread of its own. */
    private void shutDownTimer() {
        if (closed && deadlines.isEmpty()) {
            timer.shutdown();
        }
    }

    /**
     * Makes a resource that is closed with this client. {@code make} receives a callback for an earlier end of the
     * resource.
     */
    <T extends AutoCloseable> T opened(Function<Runnable, T> make) {
        checkOpen();
        AutoCloseable[] made = new AutoCloseable[1];
        T closeable = make.apply(() -> open.remove(made[0]));
        made[0] = closeable;
        open.add(closeable);
        // Checked after the resource was added: a close either finds it in the set, or is noticed here.
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

    /** Waits even if this thread is interrupted: an interrupt is a common reason why blocks end early. */
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

    /** Whether the client is closed or being closed: then no hold is opened any more. */
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
        List<Follower> following;
        synchronized (deadlines) {
            closed = true;
            following = List.copyOf(followers.values());
        }
        open.forEach(Core::end);
        // Before the connection: its end is not a disconnect after which the streams must reconnect.
        following.forEach(Follower::close);
        connection.close();
        synchronized (deadlines) {
            shutDownTimer();
        }
        timer.handOver();
    }
}
