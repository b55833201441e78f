package dev.pausewatch;

import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * How long one thread has been paused since this process began to follow it, as far as is known.
 *
 * <p>The server's {@code pausedTotal} is exact in each state; between states the local clock carries on:
 *
 * <pre>
 * pausedTime = pausedTotal - pausedTotal at the start     (+ the local time since the last state, while paused)
 * </pre>
 *
 * The difference of two totals includes every pause that this process did not see. Pure: no clock is read. All times are
 * nanoseconds.
 *
 * <p>1. Time before the start is never credited, and never more than the time since the start. The first state cannot say which
 * part of its total is older than the start; whatever may be newer is credited (the gap until the first state is milliseconds,
 * unless the link was down).
 *
 * <p>2. While disconnected, a paused thread counts as paused for {@code grace} and then as running: the leases that would end its
 * pause cannot be seen. A link that died silently was lost with its last message. But if a stopwatch has joined since, a pause
 * counts until that join; otherwise time before the join would be charged to it. The next state corrects the assumption in both
 * directions.
 *
 * <p>3. Another epoch, or a lower total or revision, means that the server lost its state (or forgot an idle thread). The new
 * total has nothing in common with the old one: the paused time so far is kept, and grows by the new total, by the time since the
 * last state at most. A server without epochs sends 0, which is compared by total and revision. But an open pause is not
 * forgotten: a lower total after an open pause, in the same epoch, is the total at an earlier moment, for example from
 * another replica; then the known total is used.
 *
 * <p>4. Local time stops while the machine sleeps; the server's may not. A sleep within a pause is left out, so that it cannot
 * pay for time that was charged. The total of a state that was sent before the sleep and arrived after it does not include the
 * sleep: it is then left out of the next total.
 */
final class PausedTimeTracker {
    /** Shorter sleeps of the machine are noise between two clocks. */
    private static final long SHORTEST_SLEEP = TimeUnit.MILLISECONDS.toNanos(100);

    /** The maximum delivery time of a state: the connection is given up before a state is later than this. */
    private static final long LONGEST_WAY = TimeUnit.SECONDS.toNanos(15);

    private final long began;
    private final long grace;
    private @Nullable Last last;
    /** When the link was lost. */
    private OptionalLong disconnectedAt;

    /** When a stopwatch joined last. */
    private long joinedAt;
    /** The last join before the disconnect was noticed. */
    private long joinedBeforeDisconnect;

    private @Nullable Joined joined;

    /** The fields of a state that matter here. {@code pausedFor}: how long the open pause has lasted. */
    record ObservedState(Version version, boolean paused, long total, long pausedFor) {
        /** This state after {@code last}: no open pause gets shorter. */
        private ObservedState after(ObservedState last) {
            boolean isOpen = last.paused && version.epoch() == last.version.epoch() && version.epoch() != 0;
            return isOpen ? new ObservedState(version, paused, Math.max(total, last.total), pausedFor) : this;
        }

        /** Whether the server lost this state before it sent {@code next}. */
        private boolean isLost(ObservedState next) {
            return !version.isComparableTo(next.version)
                    || next.version.compareRevision(version) < 0
                    || next.total < total;
        }
    }

    /** A reading of this process's clock, and how long the machine has slept. */
    record LocalTime(long at, long slept) {}

    /** The paused time {@code pausedTime} at the moment {@code at}, and how long the open pause had lasted then. */
    record Place(long at, long pausedTime, long pausedFor) {}

    /** Receives the place of the stopwatches that joined, with the first state after the join. */
    static final class Joined {
        private final AtomicReference<Place> place = new AtomicReference<>();

        Optional<Place> place() {
            return Optional.ofNullable(place.get());
        }
    }

    /**
     * The paused time when a stopwatch joins, as far as it is known, and {@code joined}, which the next state
     * completes.
     */
    record Join(long pausedTime, Joined joined) {}

    /**
     * The last state. {@code unsettled}: what the machine slept before it came and perhaps after it was sent; then it is part
     * of the next total.
     */
    private record Last(ObservedState seen, LocalTime now, long pausedTime, long unsettled) {}

    /** When it was closed. */
    private OptionalLong closedAt = OptionalLong.empty();

    PausedTimeTracker(long now, long grace) {
        this.began = now;
        this.grace = grace;
        this.disconnectedAt = OptionalLong.of(now);
        this.joinedAt = now;
        this.joinedBeforeDisconnect = now;
    }

    /** How long the thread has been paused since the beginning. */
    long pausedTime(long now) {
        if (last == null) {
            return 0;
        }
        if (!last.seen.paused) {
            return last.pausedTime;
        }
        OptionalLong validUntil = validUntil();
        long until = validUntil.isPresent() && validUntil.getAsLong() - now < 0 ? validUntil.getAsLong() : now;
        return last.pausedTime + Math.max(0, until - last.now.at);
    }

    boolean isPaused(long now) {
        OptionalLong validUntil = validUntil();
        return last != null && last.seen.paused && (validUntil.isEmpty() || now - validUntil.getAsLong() < 0);
    }

    /** When a pause that cannot be confirmed stops counting. Empty: the link is up. */
    OptionalLong validUntil() {
        if (disconnectedAt.isEmpty()) {
            return OptionalLong.empty();
        }
        long end = disconnectedAt.getAsLong() + grace;
        long until = joinedBeforeDisconnect - end > 0 ? joinedBeforeDisconnect : end;
        return closedAt.isPresent() && closedAt.getAsLong() - until < 0 ? closedAt : OptionalLong.of(until);
    }

    /** Whether the state is known, and the watch is connected. */
    boolean isLinked() {
        return last != null && disconnectedAt.isEmpty();
    }

    /** Notes that a stopwatch joins. Needed even if the link seems to be up: it may be dead without notice. */
    Join join(long now) {
        joinedAt = now;
        if (joined == null) {
            joined = new Joined();
        }
        return new Join(pausedTime(now), joined);
    }

    /** How much of the grace the open, unconfirmed pause uses, for a stopwatch that joined at {@code joined}. */
    long unconfirmedPause(long joined) {
        if (last == null || !last.seen.paused || disconnectedAt.isEmpty()) {
            return 0;
        }
        long before = Math.max(0, joined - disconnectedAt.getAsLong());
        return Math.max(0, grace - before);
    }

    /** Notes that the watch has been disconnected since then. Returns whether waiters must check again. */
    boolean disconnect(long now, long since) {
        boolean wasPaused = isPaused(now);
        if (disconnectedAt.isEmpty()) {
            // An answer may have confirmed the state later.
            boolean confirmed = last != null && last.now.at - since > 0;
            disconnectedAt = OptionalLong.of(confirmed ? last.now.at : since);
            joinedBeforeDisconnect = joinedAt;
        }
        return wasPaused;
    }

    /** Notes that no more states will arrive: from now on the thread counts as running. */
    void close(long now) {
        disconnect(now, now);
        closedAt = OptionalLong.of(now);
    }

    boolean isClosed() {
        return closedAt.isPresent();
    }

    /** Applies a state. Returns whether waiters must check again: after a resume, and when an assumption was corrected. */
    boolean apply(LocalTime now, ObservedState told) {
        ObservedState seen = last == null ? told : told.after(last.seen);
        boolean assumed = disconnectedAt.isPresent();
        boolean wasPaused = isPaused(now.at);
        Growth with = pausedTimeWith(now, seen);
        long pausedTime = Math.min(with.pausedTime, Math.max(0, now.at - began));
        disconnectedAt = OptionalLong.empty();
        settleJoined(new Place(now.at, pausedTime, seen.pausedFor));
        last = new Last(seen, now, pausedTime, seen.paused ? with.unsettled : 0);
        return assumed || (wasPaused && !seen.paused);
    }

    /** Sets the place of the stopwatches that joined since the last state. */
    private void settleJoined(Place place) {
        if (joined != null) {
            joined.place.set(place);
            joined = null;
        }
    }

    /** The paused time with a state, and the sleep of the machine that may be in the next total. */
    private record Growth(long pausedTime, long unsettled) {}

    private Growth pausedTimeWith(LocalTime now, ObservedState seen) {
        if (last == null) {
            return new Growth(seen.total, 0);
        }
        if (last.seen.isLost(seen)) {
            // A pause was seen until the disconnect; the new total can be in addition to it.
            long seenUntil = last.seen.paused ? disconnectedAt.orElse(now.at) : last.now.at;
            long since = Math.max(0, now.at - seenUntil);
            return new Growth(Math.max(pausedTime(now.at), pausedTime(seenUntil) + Math.min(seen.total, since)), 0);
        }
        Growth awake = awake(now, seen.total - last.seen.total);
        return new Growth(last.pausedTime + awake.pausedTime, awake.unsettled);
    }

    /**
     * The part of {@code growth}, paused between the last state and {@code now}, in which this machine was awake; and what
     * it slept that may be in the next total instead.
     *
     * <p>If the thread was paused in its last state, it was probably paused all the time: then the growth is the time
     * awake plus the sleeps that are in the total. The closest combination is chosen.
     */
    private Growth awake(LocalTime now, long growth) {
        long awake = Math.max(0, now.at - last.now.at);
        long slept = now.slept - last.now.slept;
        long fresh = slept < SHORTEST_SLEEP ? 0 : slept;
        long old = last.unsettled;
        if (fresh == 0 && old == 0) {
            return new Growth(growth, 0);
        }
        if (!last.seen.paused) {
            return new Growth(Math.min(growth, awake), fresh);
        }
        long within = 0;
        long unsettled = fresh == 0 ? old : fresh;
        for (long[] choice : new long[][] {{fresh, 0}, {old, fresh}, {old + fresh, 0}}) {
            if (choice[0] <= growth && Math.abs(growth - awake - choice[0]) < Math.abs(growth - awake - within)) {
                within = choice[0];
                unsettled = choice[1];
            }
        }
        // The last state may have been in transit for some time, which is in the growth too.
        return new Growth(within > 0 ? growth - within : Math.min(growth, awake + LONGEST_WAY), unsettled);
    }
}
