package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

class DeliveryTest {
    private final Outbox outbox = new Outbox(false);
    private final Deque<Runnable> executor = new ArrayDeque<>();
    private final List<Long> told = new ArrayList<>();

    private void listen(Runnable whileTold) {
        Delivery delivery = new Delivery(
                outbox,
                event -> {
                    told.add(((Watch.Event.State) event).state().revision());
                    whileTold.run();
                },
                executor::add);
        outbox.onReady(delivery::ready);
        outbox.added("t");
    }

    private void state(long revision) {
        outbox.state(OutboxTest.state("t", revision, true), false);
    }

    @Test
    void aListenerThatIsLateGetsTheLatestState() {
        listen(() -> {});
        for (int revision = 1; revision <= 1_000; revision++) {
            state(revision);
        }
        assertEquals(1, executor.size(), "one task, however much there is to tell");
        executor.remove().run();
        assertEquals(List.of(1_000L), told);
        state(1_001);
        executor.remove().run();
        assertEquals(List.of(1_000L, 1_001L), told);
    }

    @Test
    void eventsWhileTheListenerIsBusyAreDeliveredByTheSameTask() {
        listen(() -> {
            if (told.size() < 5) {
                state(told.get(told.size() - 1) + 1);
            }
        });
        state(1);
        executor.remove().run();
        assertEquals(List.of(1L, 2L, 3L, 4L, 5L), told);
        assertEquals(0, executor.size());
    }

    @Test
    void aListenerThatFailsWithAnErrorReceivesTheNextEvent() {
        listen(() -> {
            throw new AssertionError("on purpose");
        });
        state(1);
        executor.remove().run();
        state(2);
        executor.remove().run();
        assertEquals(List.of(1L, 2L), told);
    }

    @Test
    void anExecutorThatRefusesUntilTheOutboxIsFullIsTriedAgain() throws InterruptedException {
        Outbox all = new Outbox(true);
        CountDownLatch heard = new CountDownLatch(Outbox.MAX_UNREAD_EVENTS);
        AtomicBoolean refuses = new AtomicBoolean();
        Delivery delivery = new Delivery(all, event -> heard.countDown(), task -> {
            if (refuses.get()) {
                throw new RejectedExecutionException("on purpose");
            }
            task.run();
        });
        for (int thread = 0; thread < Outbox.MAX_UNREAD_EVENTS - 1; thread++) {
            all.state(OutboxTest.state("t" + thread, 1, true), false);
        }
        all.onReady(delivery::ready);
        refuses.set(true);
        all.state(OutboxTest.state("last", 1, true), false);
        refuses.set(false);
        assertTrue(heard.await(10, TimeUnit.SECONDS));
    }

    @Test
    void anExecutorThatRefusesIsTriedIsTriedAgainWithTheNextEvent() {
        AtomicBoolean refuses = new AtomicBoolean(true);
        Delivery delivery = new Delivery(outbox, event -> told.add(0L), task -> {
            if (refuses.get()) {
                throw new RejectedExecutionException("on purpose");
            }
            task.run();
        });
        outbox.onReady(delivery::ready);
        outbox.added("t");
        state(1);
        refuses.set(false);
        state(2);
        assertEquals(List.of(0L), told);
    }
}
