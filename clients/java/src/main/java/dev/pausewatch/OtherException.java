package dev.pausewatch;

/**
 * Anything else, for example a call that was given up because its thread was interrupted; see {@link #status()}. Whether something was
 * changed is unknown.
 */
public final class OtherException extends PausewatchException {
    private static final long serialVersionUID = 1;

    OtherException(Failure failure) {
        super(failure);
    }
}
