package dev.pausewatch;

import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * Delivers the events of a watch to a user's listener, one after another, on the user's executor. If the listener throws, it
 * still receives the next event.
 */
final class Delivery implements Runnable {
    private static final System.Logger LOG = System.getLogger(Delivery.class.getName());

    private final Outbox outbox;
    private final Consumer<Watch.Event> listener;
    private final Executor executor;
    private final AtomicBoolean running = new AtomicBoolean();

    Delivery(Outbox outbox, Consumer<Watch.Event> listener, Executor executor) {
        this.outbox = outbox;
        this.listener = listener;
        this.executor = executor;
    }

    void ready() {
        if (running.compareAndSet(false, true)) {
            try {
                executor.execute(this);
            } catch (RuntimeException refused) {
                // The watch itself continues; the next event tries again.
                running.set(false);
                LOG.log(System.Logger.Level.ERROR, "the executor of a watch's listener failed", refused);
                if (outbox.isFull()) {
                    // A full outbox receives no next event.
                    CompletableFuture.delayedExecutor(1, TimeUnit.SECONDS).execute(this::ready);
                }
            }
        }
    }

    @Override
    public void run() {
        Optional<Watch.Event> event = outbox.poll();
        while (event.isPresent()) {
            deliver(event.get());
            event = outbox.poll();
        }
        running.set(false);
        // An event that came after the last poll found this delivery still running.
        if (outbox.isReady()) {
            ready();
        }
    }

    private void deliver(Watch.Event event) {
        try {
            listener.accept(event);
        } catch (Throwable thrown) {
            // Errors too, and unchecked throwables of other languages: otherwise no more events would be delivered.
            LOG.log(System.Logger.Level.ERROR, "a listener of a watch failed", thrown);
        }
    }
}
