package dev.pausewatch;

import java.util.LinkedHashSet;
import java.util.Set;

/** Questions about threads that wait until the test answers them. */
final class Questions implements ThreadClock.Confirmer {
    private final Timer timer;
    private final Set<String> waiting = new LinkedHashSet<>();
    boolean stream = true;

    Questions(Timer timer) {
        this.timer = timer;
    }

    @Override
    public void confirm(String threadId) {
        waiting.add(threadId);
    }

    @Override
    public void forget(String threadId) {
        waiting.remove(threadId);
    }

    @Override
    public boolean hasStream() {
        return stream;
    }

    /** Which threads are asked about. */
    Set<String> waiting() {
        return waiting;
    }

    /** Sends the question about that thread; returns when that was. */
    long send(ThreadClock thread) {
        if (!waiting.remove(thread.threadId())) {
            throw new AssertionError("nobody asks for " + thread.threadId());
        }
        thread.asked(timer.now());
        return timer.now();
    }
}
