package dev.pausewatch;

/**
 * No coordinator answered: none listens there, it is draining, or the connection broke, and retries within the deadline did not help. The
 * outcome is unknown. Call again with the same request id: it counts once.
 */
public final class UnavailableException extends PausewatchException {
    private static final long serialVersionUID = 1;

    UnavailableException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isTransient() {
        return true;
    }
}
