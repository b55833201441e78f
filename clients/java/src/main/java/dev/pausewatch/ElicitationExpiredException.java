package dev.pausewatch;

/**
 * The elicitation was already closed, by the end of its lease. Nothing was changed. From {@link Hold#close()} it means
 * that the person's answer came too late: commands of the thread may have timed out.
 */
public final class ElicitationExpiredException extends PausewatchException {
    private static final long serialVersionUID = 1;

    ElicitationExpiredException(Failure failure) {
        super(failure);
    }
}
