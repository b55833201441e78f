package dev.pausewatch;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Comparator;
import java.util.Deque;
import java.util.Optional;
import java.util.TreeSet;

/** A timer whose time is moved by the test, on the thread of the test. */
final class ManualTimer implements Timer {
    private final TreeSet<Task> alarms =
            new TreeSet<>(Comparator.comparingLong(Task::at).thenComparing(Task::number));
    private final Deque<Runnable> ready = new ArrayDeque<>();
    private long now = 1_000_000_000_000L;
    private long numbers;

    private record Task(long at, long number, Runnable task) {}

    @Override
    public long now() {
        return now;
    }

    @Override
    public Alarm in(long nanos, Runnable task) {
        Task alarm = new Task(now + nanos, numbers++, task);
        alarms.add(alarm);
        return () -> alarms.remove(alarm);
    }

    @Override
    public void execute(Runnable task) {
        ready.add(task);
    }

    /** Runs what is ready, then what becomes due until {@code duration} has passed, each at its moment. */
    void advance(Duration duration) {
        long end = now + duration.toNanos();
        settle();
        for (Optional<Task> due = due(end); due.isPresent(); due = due(end)) {
            now = Math.max(now, due.get().at);
            alarms.remove(due.get());
            due.get().task.run();
            settle();
        }
        now = end;
    }

    /** Time in which nothing runs, not even what becomes due: the process is stopped. */
    void stall(Duration duration) {
        now += duration.toNanos();
    }

    void settle() {
        for (Runnable next = ready.poll(); next != null; next = ready.poll()) {
            next.run();
        }
    }

    int alarms() {
        return alarms.size();
    }

    private Optional<Task> due(long end) {
        return alarms.isEmpty() || alarms.first().at > end ? Optional.empty() : Optional.of(alarms.first());
    }
}
