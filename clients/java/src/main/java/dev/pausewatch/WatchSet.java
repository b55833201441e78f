package dev.pausewatch;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The threads of a watch, in groups of as many as one stream may name. Everything happens on the timer's thread, except
 * {@link #add} and {@link #remove}, which may be called on any.
 */
final class WatchSet {
    /** The most thread ids that one stream may name. */
    private static final int MOST_IDS = 10_000;

    private final WatchGroup.Environment environment;
    private final boolean all;
    private final List<WatchGroup> groups = new ArrayList<>();
    private final Map<String, WatchGroup> groupOf = new HashMap<>();

    WatchSet(WatchGroup.Environment environment, boolean all) {
        this.environment = environment;
        this.all = all;
        if (all) {
            WatchGroup everything = new WatchGroup(environment, true, this::settled);
            groups.add(everything);
            environment.timer().execute(everything::start);
        }
    }

    void add(String threadId) {
        environment.timer().execute(() -> addNow(threadId));
    }

    void remove(String threadId) {
        environment.timer().execute(() -> removeNow(threadId));
    }

    void close() {
        environment.timer().execute(() -> groups.forEach(WatchGroup::close));
    }

    private void addNow(String threadId) {
        if (all || groupOf.containsKey(threadId)) {
            return;
        }
        environment.outbox().add(threadId);
        WatchGroup group = groups.stream()
                .filter(candidate -> candidate.size() < MOST_IDS)
                .findFirst()
                .orElseGet(this::newGroup);
        groupOf.put(threadId, group);
        group.add(threadId);
    }

    private void removeNow(String threadId) {
        WatchGroup group = groupOf.remove(threadId);
        if (group != null) {
            environment.outbox().remove(threadId);
            group.remove(threadId);
        }
    }

    private WatchGroup newGroup() {
        WatchGroup group = new WatchGroup(environment, false, this::settled);
        groups.add(group);
        return group;
    }

    private void settled() {
        if (groups.stream().allMatch(group -> group.size() == 0 || group.isSettled())) {
            environment.outbox().snapshotComplete();
        }
    }
}
