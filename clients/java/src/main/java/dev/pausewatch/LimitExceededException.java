package dev.pausewatch;

import java.time.Duration;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The caller, or all callers together, have as much as the coordinator lets them have. Nothing was changed. For a limit of calls a second,
 * retries within the deadline did not help.
 */
public final class LimitExceededException extends PausewatchException {
    private static final long serialVersionUID = 1;
    private static final Duration WITHOUT_A_TIME = Duration.ofSeconds(1);

    private final String limit;
    /** Null: the coordinator did not say. */
    private final @Nullable Duration retryAfter;

    LimitExceededException(Failure failure, String limit, Optional<Duration> retryAfter) {
        super(failure);
        this.limit = limit;
        this.retryAfter = retryAfter.orElse(null);
    }

    /** Which limit, as the coordinator names it: {@code streams-per-caller}. */
    public String limit() {
        return limit;
    }

    /** When another try may help; empty when the coordinator did not say. */
    public Optional<Duration> retryAfter() {
        return Optional.ofNullable(retryAfter);
    }

    /** Whether it is the limit of calls a second. */
    @Override
    public boolean isTransient() {
        return callLessOften().isPresent();
    }

    /**
     * How long to wait, if it is only that there were too many calls in this second. Any other limit is met until somebody closes something.
     */
    Optional<Duration> callLessOften() {
        return limit.startsWith("calls-per-second")
                ? Optional.of(retryAfter().orElse(WITHOUT_A_TIME))
                : Optional.empty();
    }
}
