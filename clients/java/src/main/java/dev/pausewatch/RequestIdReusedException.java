package dev.pausewatch;

/** The request id was used by a call with other content. Nothing was changed by this call. */
public final class RequestIdReusedException extends PausewatchException {
    private static final long serialVersionUID = 1;

    RequestIdReusedException(Failure failure) {
        super(failure);
    }
}
