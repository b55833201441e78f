package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What is left of a client after its end. */
class ClosedClientTest {
    private static final Duration LONG = Duration.ofHours(1);

    /** The live threads with this name. */
    private static long threads(String name) {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals(name))
                .count();
    }

    private static void awaitThreads(String name, long most) throws InterruptedException {
        while (threads(name) > most) {
            Thread.sleep(10);
        }
    }

    @Test
    @Timeout(60)
    void closedClientsWithDeadlinesShareOneThread() throws Exception {
        long before = threads("pausewatch");
        List<PausableDeadline> running = new ArrayList<>();
        List<CompletableFuture<Void>> ending = new ArrayList<>();
        for (int each = 0; each < 10; each++) {
            try (Client client = Client.open("127.0.0.1:1")) {
                running.add(client.deadline("t", LONG));
                ending.add(client.deadline("t", Duration.ofMillis(200)).expired());
            }
        }
        awaitThreads("pausewatch", before);
        assertEquals(1, threads("pausewatch-closed"));
        // They run on.
        CompletableFuture.allOf(ending.toArray(CompletableFuture[]::new)).join();
        running.forEach(deadline -> assertTrue(!deadline.read().expired()));
        running.forEach(PausableDeadline::close);
        awaitThreads("pausewatch-closed", 0);
    }

    @Test
    @Timeout(60)
    void tasksKeepTheirOrderAndTheirTimeWhenTheyAreHandedOver() throws Exception {
        SystemTimer timer = new SystemTimer();
        List<Integer> ran = new ArrayList<>();
        CompletableFuture<Void> all = new CompletableFuture<>();
        CompletableFuture<Void> begin = new CompletableFuture<>();
        timer.execute(begin::join);
        timer.in(Duration.ofMillis(100).toNanos(), () -> {
            ran.add(-1);
            all.complete(null);
        });
        Timer.Alarm cancelled = timer.in(Duration.ofMillis(50).toNanos(), () -> ran.add(-2));
        timer.handOver();
        for (int number = 0; number < 100; number++) {
            int each = number;
            timer.execute(() -> ran.add(each));
        }
        cancelled.cancel();
        begin.complete(null);
        all.join();
        List<Integer> expected = new ArrayList<>();
        for (int number = 0; number < 100; number++) {
            expected.add(number);
        }
        expected.add(-1);
        assertEquals(expected, ran);
        timer.shutdown();
        timer.execute(() -> ran.add(-3));
        Timer after = new SystemTimer();
        CompletableFuture<Void> later = new CompletableFuture<>();
        after.execute(() -> later.complete(null));
        later.join();
        assertEquals(expected, ran);
    }
}
