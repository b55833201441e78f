package dev.pausewatch;

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

    WatchSet watchSet(Outbox outbox, boolean all, boolean includeElicitations, Calls.Patience patience) {
        WatchGroup.Environment environment = new WatchGroup.Environment(
                connection,
                timer,
                outbox,
                includeElicitations,
                patience.deadline(),
                threadId -> calls.get(threadId, patience));
        return new WatchSet(environment, all);
    }

    Follower follower(Duration grace, Calls.Patience patience) {
        return followers.computeIfAbsent(grace, missing -> {
            Outbox outbox = new Outbox(false);
            WatchSet set = watchSet(outbox, false, false, patience);
            return new Follower(timer, Nanos.of(grace), threadId -> calls.get(threadId, patience), outbox, set);
        });
    }

    /** Makes something that ends with this client, unless it ends before: it then calls what it was made with. */
    <T extends AutoCloseable> T opened(Function<Runnable, T> make) {
        if (connection.isClosed()) {
            throw new IllegalStateException("the client is closed");
        }
        AutoCloseable[] made = new AutoCloseable[1];
        T closeable = make.apply(() -> open.remove(made[0]));
        made[0] = closeable;
        open.add(closeable);
        return closeable;
    }

    @Override
    public void close() {
        for (AutoCloseable closeable : open) {
            try {
                closeable.close();
            } catch (Exception impossible) {
                throw new IllegalStateException(impossible);
            }
        }
        connection.close();
        timer.shutdown();
    }
}
