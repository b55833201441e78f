package dev.pausewatch.soak;

import com.google.gson.JsonObject;
import dev.pausewatch.Client;
import dev.pausewatch.Config;
import dev.pausewatch.Hold;
import dev.pausewatch.PausableDeadline;
import dev.pausewatch.PauseState;
import dev.pausewatch.PausewatchException;
import dev.pausewatch.Watch;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** One round of the soak: everything that a program does with the library, at the same time, cancelled at random. */
final class Round {
    private static final Duration TTL = Duration.ofSeconds(60);
    /** The longest wait for anything. */
    private static final long LIMIT_S = 30;

    private final Counts counts = new Counts();
    private final ScheduledExecutorService timers = Executors.newSingleThreadScheduledExecutor();
    private final ExecutorService workers;
    private final Config config;
    private final Client client;
    private final String prefix;
    private final double seconds;
    private final int deadlines;
    private final boolean disturbed;
    private final long end;

    Round(JsonObject order, ExecutorService workers) {
        this.workers = workers;
        JsonObject settings = order.getAsJsonObject("settings");
        Config.Builder builder =
                Config.builder().address(settings.get("address").getAsString());
        if (settings.has("token")) {
            builder.token(settings.get("token").getAsString());
        }
        if (settings.has("tls_ca")) {
            builder.tlsCa(Path.of(settings.get("tls_ca").getAsString()));
        }
        config = builder.build();
        client = Client.open(config);
        prefix = order.get("prefix").getAsString();
        seconds = order.get("seconds").getAsDouble();
        deadlines = order.get("deadlines").getAsInt();
        disturbed = order.get("disturbed").getAsBoolean();
        end = System.nanoTime() + (long) (seconds * 1e9);
    }

    Counts play() throws Exception {
        List<Future<?>> all = new ArrayList<>();
        for (int worker = 0; worker < 4; worker++) {
            all.add(workers.submit(() -> until(this::cancelledHold)));
        }
        all.add(workers.submit(() -> until(this::burst)));
        all.add(workers.submit(() -> until(this::shortLife)));
        all.add(workers.submit(() -> until(this::expiries)));
        all.add(workers.submit(this::person));
        all.add(workers.submit(this::clock));
        for (Future<?> each : all) {
            each.get();
        }
        within(workers.submit(client::close));
        timers.shutdownNow();
        return counts;
    }

    private interface Step {
        void play() throws Exception;
    }

    private Void until(Step step) throws Exception {
        while (System.nanoTime() - end < 0) {
            step.play();
        }
        return null;
    }

    private static int random(int bound) {
        return ThreadLocalRandom.current().nextInt(bound);
    }

    private static double millisSince(long start) {
        return (System.nanoTime() - start) / 1e6;
    }

    /** Waits for {@code work}, but not for ever, which is counted. */
    private boolean within(Future<?> work) throws InterruptedException, ExecutionException {
        try {
            work.get(LIMIT_S, TimeUnit.SECONDS);
            return true;
        } catch (TimeoutException late) {
            counts.hang();
            return false;
        }
    }

    /** Whether the elicitation may be open after this. */
    private static boolean isTransient(Throwable thrown) {
        return thrown instanceof PausewatchException error && error.isTransient();
    }

    /** Runs {@code work} on a thread that is interrupted after {@code afterMs}. */
    private boolean interrupted(Callable<?> work, int afterMs) throws Exception {
        Future<?> running = workers.submit(work);
        Future<?> interrupting = timers.schedule(() -> running.cancel(true), afterMs, TimeUnit.MILLISECONDS);
        try {
            within(running);
        } catch (java.util.concurrent.CancellationException cancelled) {
            return true;
        } finally {
            interrupting.cancel(false);
        }
        return false;
    }

    private void cancelledHold() throws Exception {
        counts.held();
        String threadId = prefix + "hold-" + random(20);
        int kind = random(3);
        if (kind == 0) {
            boolean was = interrupted(
                    () -> {
                        // Interrupted after the open, it is left at once, as a block would.
                        try (Hold hold = client.hold(threadId).ttl(TTL).open()) {
                            hold.lost().getNow(null);
                            Thread.sleep(random(5));
                        } catch (PausewatchException error) {
                            if (isTransient(error)) {
                                counts.mayBeOpen();
                            }
                        } catch (InterruptedException left) {
                            Thread.currentThread().interrupt();
                        }
                        return null;
                    },
                    random(20));
            if (was) {
                counts.cancel();
            }
            return;
        }
        Optional<Hold> opened = open(threadId);
        if (opened.isEmpty()) {
            return;
        }
        Hold hold = opened.get();
        if (kind == 1 && interrupted(hold::release, random(20))) {
            counts.cancel();
        }
        release(hold);
    }

    /** Opens a hold; empty: the server was not reached. */
    private Optional<Hold> open(String threadId) {
        try {
            return Optional.of(client.hold(threadId).ttl(TTL).open());
        } catch (PausewatchException error) {
            if (!isTransient(error)) {
                throw error;
            }
            counts.mayBeOpen();
            return Optional.empty();
        }
    }

    private void release(Hold hold) {
        try {
            hold.release();
        } catch (PausewatchException error) {
            if (!isTransient(error)) {
                throw error;
            }
            counts.mayBeOpen();
        }
    }

    private void burst() throws Exception {
        List<CompletableFuture<PauseState>> calls = new ArrayList<>();
        for (int call = 0; call < 100; call++) {
            calls.add(client.async().getPauseState(prefix + "burst"));
        }
        Thread.sleep(random(3));
        calls.forEach(call -> call.cancel(true));
        Thread.sleep(1_000);
    }

    private void shortLife() throws Exception {
        Client other = Client.open(config);
        Watch watch = other.watch(prefix + "short-1", prefix + "short-2", prefix + "short-3")
                .open();
        Future<?> watching = workers.submit(() -> watch.forEach(event -> {}));
        PausableDeadline deadline = other.deadline(prefix + "short-1", TTL);
        Future<?> opening = workers.submit(() -> {
            try {
                other.hold(prefix + "short-2").ttl(TTL).open();
                // A closed client does not release the holds that it has given away.
                counts.mayBeOpen();
            } catch (PausewatchException error) {
                if (isTransient(error)) {
                    counts.mayBeOpen();
                }
            } catch (IllegalStateException closed) {
                // It was closed first.
            }
        });
        Thread.sleep(random(50));
        within(workers.submit(other::close));
        within(watching);
        within(opening);
        deadline.close();
    }

    private void expiries() throws Exception {
        List<CompletableFuture<?>> all = new ArrayList<>();
        for (int number = 0; number < deadlines; number++) {
            int limit = 200 + random(800);
            long due = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(limit);
            CompletableFuture<Void> bare = new CompletableFuture<>();
            timers.schedule(
                    () -> {
                        counts.bare(millisSince(due));
                        bare.complete(null);
                    },
                    limit,
                    TimeUnit.MILLISECONDS);
            PausableDeadline deadline = client.deadline(prefix + "deadline-" + number % 20, Duration.ofMillis(limit));
            all.add(bare);
            all.add(deadline.expired().thenRun(() -> counts.expire(millisSince(due))));
        }
        within(CompletableFuture.allOf(all.toArray(CompletableFuture[]::new)));
    }

    private Void person() throws Exception {
        String threadId = prefix + "person";
        Optional<Hold> opened = open(threadId);
        if (opened.isEmpty()) {
            return null;
        }
        Hold hold = opened.get();
        Watch watch = client.watch(threadId).open();
        try (PausableDeadline deadline = client.deadline(threadId, Duration.ofMillis(300))) {
            Future<?> watching = workers.submit(() -> watch.forEach(event -> {
                if (event instanceof Watch.Event.Disconnected) {
                    counts.disconnect();
                }
            }));
            Thread.sleep((long) (Math.max(seconds - 1, 0.6) * 1_000));
            if (deadline.read().expired()) {
                counts.falseExpiry();
            }
            release(hold);
            within(deadline.expired());
            if (deadline.read().elapsed().toNanos() < 295_000_000L) {
                counts.early();
            }
            watch.close();
            within(watching);
        }
        return null;
    }

    /** The charged time of a deadline, against the clock of this process. */
    private Void clock() throws Exception {
        long starting = System.nanoTime();
        try (PausableDeadline deadline = client.deadline(prefix + "clock", TTL)) {
            long started = System.nanoTime();
            Thread.sleep(50);
            long pausing = System.nanoTime();
            PausableDeadline.Pause pause = deadline.pause();
            long paused = System.nanoTime();
            Thread.sleep(100 + random(400));
            double leastPause = millisSince(paused);
            pause.close();
            double mostPause = millisSince(pausing);
            double least = millisSince(started) - mostPause;
            double elapsed = deadline.read().elapsed().toNanos() / 1e6;
            double most = millisSince(starting) - leastPause;
            counts.clock(Math.max(0, Math.max(least - elapsed, elapsed - most)));
            if (!disturbed) {
                awaited(deadline);
            }
        }
        return null;
    }

    private void awaited(PausableDeadline deadline) throws Exception {
        PausableDeadline.Wait wait = deadline.awaitThread(prefix + "child");
        try (wait) {
            while (!deadline.read().linked() && System.nanoTime() - end < 0) {
                Thread.sleep(5);
            }
            long from = System.nanoTime();
            long charged = deadline.read().elapsed().toNanos();
            long after = System.nanoTime();
            Optional<Hold> hold = open(prefix + "child");
            if (hold.isEmpty()) {
                return;
            }
            long opened = System.nanoTime();
            Thread.sleep(100 + random(400));
            double least = millisSince(opened);
            release(hold.get());
            double most = millisSince(from);
            // The message of the resume may arrive after the answer.
            for (int turn = 0; turn < 200 && deadline.read().paused(); turn++) {
                Thread.sleep(5);
            }
            Thread.sleep(50);
            // This thread may be stopped between two readings of the clock.
            double leastWall = millisSince(after);
            double grown = (deadline.read().elapsed().toNanos() - charged) / 1e6;
            double mostWall = millisSince(from);
            counts.awaited(Math.max(0, Math.max(least - (mostWall - grown), leastWall - grown - most)));
        }
    }
}
