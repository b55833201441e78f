package dev.pausewatch;

/** The token does not open this thread, or its role may not do this: see {@link #reason()}. Nothing was changed. */
public final class PermissionDeniedException extends PausewatchException {
    private static final long serialVersionUID = 1;

    PermissionDeniedException(Failure failure) {
        super(failure);
    }
}
