package dev.pausewatch;

/** The thread has as many open elicitations as are allowed. Nothing was changed; there is room when one closes. */
public final class TooManyElicitationsException extends PausewatchException {
    private static final long serialVersionUID = 1;

    TooManyElicitationsException(Failure failure) {
        super(failure);
    }
}
