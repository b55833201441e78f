package dev.pausewatch;

/**
 * The coordinator could not store the change, and retries within the deadline did not help. Call again with the same request id: it
 * counts once.
 */
public final class StoreUnavailableException extends PausewatchException {
    private static final long serialVersionUID = 1;

    StoreUnavailableException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isTransient() {
        return true;
    }
}
