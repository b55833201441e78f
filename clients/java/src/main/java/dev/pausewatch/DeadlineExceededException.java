package dev.pausewatch;

/** The deadline passed. The outcome is unknown. Call again with the same request id: it counts once. */
public final class DeadlineExceededException extends PausewatchException {
    private static final long serialVersionUID = 1;

    DeadlineExceededException(Failure failure) {
        super(failure);
    }

    @Override
    public boolean isTransient() {
        return true;
    }
}
