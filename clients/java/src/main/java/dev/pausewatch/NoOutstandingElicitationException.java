package dev.pausewatch;

/** A decrement at count 0: there is nothing to close. Nothing was changed. */
public final class NoOutstandingElicitationException extends PausewatchException {
    private static final long serialVersionUID = 1;

    NoOutstandingElicitationException(Failure failure) {
        super(failure);
    }
}
