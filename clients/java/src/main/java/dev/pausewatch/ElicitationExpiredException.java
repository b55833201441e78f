package dev.pausewatch;

/**
 * The named elicitation was closed before, by the end of its lease. Nothing was changed. From {@link Hold#close()} it means that what was
 * asked of the person was answered too late: commands of the thread may have been timed out meanwhile.
 */
public final class ElicitationExpiredException extends PausewatchException {
    private static final long serialVersionUID = 1;

    ElicitationExpiredException(Failure failure) {
        super(failure);
    }
}
