package dev.pausewatch;

/** The elicitation never existed on this thread, or was closed so long ago that the server has forgotten it. Nothing was changed. */
public final class ElicitationUnknownException extends PausewatchException {
    private static final long serialVersionUID = 1;

    ElicitationUnknownException(Failure failure) {
        super(failure);
    }
}
