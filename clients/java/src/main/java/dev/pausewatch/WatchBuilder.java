package dev.pausewatch;

import dev.pausewatch.v1.WatchRequest;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/** What a {@link Watch} will tell, and how. Made by {@link Client#watch} and {@link Client#watchAll}. */
public final class WatchBuilder {
    private final Core core;
    private final Calls.Patience patience;
    private final boolean all;
    private final List<String> threadIds;
    private final WatchRequest.Builder setup;

    WatchBuilder(Core core, Calls.Patience patience, boolean all, Collection<String> threadIds) {
        this.core = core;
        this.patience = patience;
        this.all = all;
        this.setup = WatchRequest.newBuilder().setAllThreads(all);
        this.threadIds = threadIds.stream().map(ThreadIds::checked).toList();
    }

    /** States come with their open elicitations. */
    public WatchBuilder includeElicitations() {
        setup.setIncludeElicitations(true);
        return this;
    }

    /** The watch shows pauses to people, and freezes nothing: it does not count among the watchers of a thread. */
    public WatchBuilder observer() {
        setup.setObserver(true);
        return this;
    }

    /** Begins to watch; the events are to be read from what is returned. */
    public Watch open() {
        return open(new Outbox(all));
    }

    /** Begins to watch; {@code listener} is told the events, one after another, on a thread of this library, where code may block. What it throws is logged. */
    public Subscription listen(Consumer<WatchEvent> listener) {
        return listen(listener, Callbacks.EXECUTOR);
    }

    /** As {@link #listen(Consumer)}, on {@code executor}. While the listener is busy, states of the same thread make way for the latest. */
    public Subscription listen(Consumer<WatchEvent> listener, Executor executor) {
        Outbox outbox = new Outbox(all);
        Delivery delivery = new Delivery(outbox, listener, executor);
        outbox.onReady(delivery::ready);
        return open(outbox)::close;
    }

    private Watch open(Outbox outbox) {
        WatchLink link = core.link(outbox, setup.build(), patience);
        outbox.onRoom(link::readOn);
        Watch watch = core.opened(closed -> new Watch(outbox, link, closed));
        threadIds.forEach(link::add);
        return watch;
    }
}
