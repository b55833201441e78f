package dev.pausewatch;

import dev.pausewatch.v1.WatchRequest;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/** What the clients of one connection share, and what is to be closed with it. */
final class Core implements AutoCloseable {
    private final SystemTimer timer = new SystemTimer();
    private final Connection connection;
    private final Calls calls;
    private final Set<AutoCloseable> open = ConcurrentHashMap.newKeySet();
    /** By disconnect grace. */
    private final Map<Duration, Follower> followers = new ConcurrentHashMap<>();

    private volatile boolean closed;

    Core(Config config) {
        connection = new Connection(Transport.channel(config));
        calls = new Calls(connection, timer);
    }

    Timer timer() {
        return timer;
    }

    Calls calls() {
        return calls;
    }

    WatchLink link(WatchListener listener, WatchRequest setup, Calls.Patience patience) {
        WatchLink.Environment environment = new WatchLink.Environment(connection, timer, patience.deadline());
        return new WatchLink(environment, listener, setup);
    }

    Follower follower(Duration grace, Calls.Patience patience) {
        return followers.computeIfAbsent(
                grace,
                missing -> new Follower(
                        timer,
                        Nanos.of(grace),
                        follower -> link(follower, WatchRequest.getDefaultInstance(), patience)));
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

    private void checkOpen() {
        if (closed) {
            throw new IllegalStateException("the client is closed");
        }
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
        closed = true;
        open.forEach(Core::end);
        connection.close();
        timer.shutdown();
    }
}
