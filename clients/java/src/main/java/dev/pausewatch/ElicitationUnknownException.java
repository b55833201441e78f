package dev.pausewatch;

/** The named elicitation never was on this thread, or was closed so long ago that it is forgotten. Nothing was changed. */
public final class ElicitationUnknownException extends PausewatchException {
    private static final long serialVersionUID = 1;

    ElicitationUnknownException(Failure failure) {
        super(failure);
    }
}
