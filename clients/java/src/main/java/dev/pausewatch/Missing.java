package dev.pausewatch;

import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Deque;
import java.util.concurrent.TimeUnit;

/**
 * The threads that were paused before a break and are not in the new snapshot of all threads, which names the paused ones only: they were resumed
 * in the gap, and are asked for one by one. Everything happens on the timer's thread.
 */
final class Missing {
    /** Before a question that found nobody is put again; up to twice as long, at random. */
    private static final long ASK_AGAIN = TimeUnit.SECONDS.toNanos(1);

    private final WatchGroup.Environment environment;
    private final Runnable allFound;
    private final Deque<String> threadIds = new ArrayDeque<>();
    /** Changes with each snapshot and break: what was asked before it is of no interest any more. */
    private int round;

    /** {@code allFound} is called when the last answer has come, or there is nothing to ask. */
    Missing(WatchGroup.Environment environment, Runnable allFound) {
        this.environment = environment;
        this.allFound = allFound;
    }

    void ask(Collection<String> threadIds) {
        forget();
        this.threadIds.addAll(threadIds);
        askNext(round);
    }

    void forget() {
        threadIds.clear();
        round++;
    }

    boolean isEmpty() {
        return threadIds.isEmpty();
    }

    private void askNext(int asked) {
        if (asked != round) {
            return;
        }
        String threadId = threadIds.peek();
        if (threadId == null) {
            allFound.run();
        } else {
            environment
                    .ask()
                    .apply(threadId)
                    .whenCompleteAsync(
                            (state, thrown) -> answered(asked, threadId, state, thrown), environment.timer());
        }
    }

    private void answered(int asked, String threadId, PauseState state, Throwable thrown) {
        if (asked != round) {
            return;
        }
        if (thrown instanceof PausewatchException error && error.isTransient()) {
            environment.timer().in(Backoff.jittered(ASK_AGAIN), () -> askNext(asked));
            return;
        }
        threadIds.remove();
        if (thrown == null) {
            environment.outbox().answer(environment.includeElicitations() ? state : state.withoutElicitations());
        } else {
            environment.outbox().remove(threadId);
        }
        askNext(asked);
    }
}
