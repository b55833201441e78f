package dev.pausewatch;

import dev.pausewatch.v1.WatchRequest;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;

/**
 * The ids that a stream must still add, remove and confirm, and the requests for them. Not thread-safe.
 *
 * <p>Confirmations and changes have separate requests, in turns, so that a refused or long change delays no confirmation.
 */
final class WatchRequests {
    /** The maximum number of ids in one request. */
    private static final int MOST_IDS = 500;

    private final Set<String> toAdd = new LinkedHashSet<>();
    private final Set<String> toRemove = new LinkedHashSet<>();
    private final Set<String> toConfirm = new LinkedHashSet<>();
    /** The threads that are forbidden on this stream. */
    private final Set<String> forbidden = new HashSet<>();

    /** The earliest time for more additions: a limit was exceeded. */
    private long addFrom;

    private boolean confirmedLast;

    /** Starts again on a new stream with these threads. Confirmations that have not arrived are requested again. */
    void restart(Collection<String> threadIds, long now) {
        toRemove.clear();
        toAdd.clear();
        toAdd.addAll(threadIds);
        forbidden.clear();
        addFrom = now;
        confirmedLast = true;
    }

    /** The stream has ended, and no other one follows. */
    void stop() {
        toConfirm.clear();
        forbidden.clear();
    }

    void add(String threadId) {
        toAdd.add(threadId);
    }

    /** Removes a thread, and cancels its confirmation. */
    void remove(String threadId) {
        forbidden.remove(threadId);
        toConfirm.remove(threadId);
        if (!toAdd.remove(threadId)) {
            toRemove.add(threadId);
        }
    }

    /** Returns whether the confirmation is new, and the thread is not forbidden. */
    boolean confirm(String threadId) {
        return !forbidden.contains(threadId) && toConfirm.add(threadId);
    }

    void forget(String threadId) {
        toConfirm.remove(threadId);
    }

    /** Forbids these threads on the stream. */
    void forbid(Collection<String> threadIds) {
        forbidden.addAll(threadIds);
    }

    /** The stream has ended: no thread is forbidden on the next one. */
    void allowAll() {
        forbidden.clear();
    }

    void delayAdditions(long until) {
        addFrom = until;
    }

    boolean isAdding() {
        return !toAdd.isEmpty();
    }

    boolean isConfirming() {
        return !toConfirm.isEmpty();
    }

    /** Whether the thread was added on the stream, and is not forbidden. */
    boolean isAsked(String threadId) {
        return !toAdd.contains(threadId) && !forbidden.contains(threadId);
    }

    /** Queues the changes of a refused request, which had no effect, again, for the threads that are still watched. */
    void retryChanges(WatchRequest refused, Predicate<String> isWatched) {
        toRemove.addAll(refused.getRemoveList());
        retry(refused.getAddList(), toAdd, isWatched);
    }

    void retryConfirmations(WatchRequest refused, Predicate<String> isWatched) {
        retry(refused.getConfirmList(), toConfirm, isWatched);
    }

    private void retry(List<String> ids, Set<String> waiting, Predicate<String> isWatched) {
        for (String id : ids) {
            if (!forbidden.contains(id) && isWatched.test(id)) {
                waiting.add(id);
            }
        }
    }

    /** The next request, if there is one to send now. {@code mayConfirm}: whether it may be a confirmation. */
    Optional<WatchRequest> next(long now, boolean mayConfirm) {
        boolean mayAdd = !toAdd.isEmpty() && now - addFrom >= 0;
        boolean isChange = mayAdd || !toRemove.isEmpty();
        boolean isConfirmation = mayConfirm && !toConfirm.isEmpty() && !(isChange && confirmedLast);
        if (!isChange && !isConfirmation) {
            return Optional.empty();
        }
        WatchRequest.Builder request = WatchRequest.newBuilder();
        if (isConfirmation) {
            request.addAllConfirm(take(toConfirm, MOST_IDS));
        } else {
            request.addAllRemove(take(toRemove, MOST_IDS));
            if (mayAdd) {
                request.addAllAdd(take(toAdd, MOST_IDS - request.getRemoveCount()));
            }
        }
        confirmedLast = isConfirmation;
        return Optional.of(request.build());
    }

    private static List<String> take(Set<String> from, int most) {
        List<String> taken = new ArrayList<>(Math.min(from.size(), most));
        for (Iterator<String> ids = from.iterator(); ids.hasNext() && taken.size() < most; ) {
            taken.add(ids.next());
            ids.remove();
        }
        return taken;
    }
}
