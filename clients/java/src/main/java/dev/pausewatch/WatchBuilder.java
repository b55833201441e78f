package dev.pausewatch;

import dev.pausewatch.v1.WatchRequest;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/** The options of a {@link Watch}. Created by {@link Client#watch} and {@link Client#watchAll}. */
public final class WatchBuilder {
    private final Core core;
    private final Calls.RetryPolicy policy;
    private final boolean all;
    private final List<String> threadIds;
    private final WatchRequest.Builder setup;

    WatchBuilder(Core core, Calls.RetryPolicy policy, boolean all, Collection<String> threadIds) {
        this.core = core;
        this.policy = policy;
        this.all = all;
        this.setup = WatchRequest.newBuilder().setAllThreads(all);
        this.threadIds = threadIds.stream().map(ThreadIds::checked).toList();
    }

    /** Adds the open elicitations to the states. */
    public WatchBuilder includeElicitations() {
        setup.setIncludeElicitations(true);
        return this;
    }

    /** This watch only shows pauses to people, and freezes nothing: it does not count among the watchers of a thread. */
    public WatchBuilder observer() {
        setup.setObserver(true);
        return this;
    }

    /** Starts the watch; read the events from the returned object. */
    public Watch open() {
        return open(new Outbox(all));
    }

    /**
     * Starts the watch; {@code listener} receives the events, one after another, on a thread of this library, where code may
     * block. Exceptions that it throws are logged.
     */
    public Subscription listen(Consumer<Watch.Event> listener) {
        return listen(listener, Callbacks.EXECUTOR);
    }

    /**
     * As {@link #listen(Consumer)}, on {@code executor}. While the listener is busy, a newer state of a thread replaces the
     * waiting one.
     */
    public Subscription listen(Consumer<Watch.Event> listener, Executor executor) {
        Outbox outbox = new Outbox(all);
        Delivery delivery = new Delivery(outbox, listener, executor);
        outbox.onReady(delivery::ready);
        return open(outbox)::close;
    }

    private Watch open(Outbox outbox) {
        Watch watch = core.opened(closed -> {
            WatchLink link = core.link(outbox, setup.build(), policy);
            outbox.onRoom(link::readOn);
            return new Watch(outbox, link, closed);
        });
        threadIds.forEach(watch::add);
        return watch;
    }
}
