package dev.pausewatch;

/** The token is missing, wrong or has expired: see {@link #reason()}. Nothing was changed; get another token. */
public final class UnauthenticatedException extends PausewatchException {
    private static final long serialVersionUID = 1;

    UnauthenticatedException(Failure failure) {
        super(failure);
    }
}
