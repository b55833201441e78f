package dev.pausewatch;

import java.time.Duration;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * This caller, or all callers together, have reached a limit of the coordinator. Nothing was changed. If it is the limit of calls
 * per second, retries within the deadline did not help.
 */
public final class LimitExceededException extends PausewatchException {
    private static final long serialVersionUID = 1;
    private static final Duration WITHOUT_A_TIME = Duration.ofSeconds(1);

    private final String limit;
    /** Null: the coordinator sent none. */
    private final @Nullable Duration retryAfter;

    LimitExceededException(Failure failure, String limit, Optional<Duration> retryAfter) {
        super(failure);
        this.limit = limit;
        this.retryAfter = retryAfter.orElse(null);
    }

    /** The name of the limit in the coordinator, for example {@code streams-per-caller}. */
    public String limit() {
        return limit;
    }

    /** The delay after which a retry may succeed; empty if the coordinator sent none. */
    public Optional<Duration> retryAfter() {
        return Optional.ofNullable(retryAfter);
    }

    /** Whether it is the limit of calls per second. */
    @Override
    public boolean isTransient() {
        return callLessOften().isPresent();
    }

    /**
     * The delay before a retry, if the limit of calls per second was exceeded; empty for any other limit, which stays
     * reached until something is closed.
     */
    Optional<Duration> callLessOften() {
        return limit.startsWith("calls-per-second")
                ? Optional.of(retryAfter().orElse(WITHOUT_A_TIME))
                : Optional.empty();
    }
}
