package dev.pausewatch;

import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * Tells a user's listener the events of a watch, one after another, on the user's executor. A listener that throws is told the next one all the
 * same.
 */
final class Delivery implements Runnable {
    private static final System.Logger LOG = System.getLogger(Delivery.class.getName());

    private final Outbox outbox;
    private final Consumer<WatchEvent> listener;
    private final Executor executor;
    private final AtomicBoolean running = new AtomicBoolean();

    Delivery(Outbox outbox, Consumer<WatchEvent> listener, Executor executor) {
        this.outbox = outbox;
        this.listener = listener;
        this.executor = executor;
    }

    void ready() {
        if (running.compareAndSet(false, true)) {
            try {
                executor.execute(this);
            } catch (RuntimeException refused) {
                // The watch itself goes on; the next event tries again.
                running.set(false);
                LOG.log(System.Logger.Level.ERROR, "the executor of a watch's listener failed", refused);
                if (outbox.isFull()) {
                    // There is no next event before there is room.
                    CompletableFuture.delayedExecutor(1, TimeUnit.SECONDS).execute(this::ready);
                }
            }
        }
    }

    @Override
    public void run() {
        Optional<WatchEvent> event = outbox.poll();
        while (event.isPresent()) {
            tell(event.get());
            event = outbox.poll();
        }
        running.set(false);
        // What came after the last look found somebody running.
        if (outbox.isReady()) {
            ready();
        }
    }

    private void tell(WatchEvent event) {
        try {
            listener.accept(event);
        } catch (Throwable thrown) {
            // Errors too, and what other languages throw unchecked: otherwise nothing would be told any more.
            LOG.log(System.Logger.Level.ERROR, "a listener of a watch failed", thrown);
        }
    }
}
