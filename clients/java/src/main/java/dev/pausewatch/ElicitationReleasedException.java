package dev.pausewatch;

/** The named elicitation was closed before, by a decrement. Nothing was changed. */
public final class ElicitationReleasedException extends PausewatchException {
    private static final long serialVersionUID = 1;

    ElicitationReleasedException(Failure failure) {
        super(failure);
    }
}
