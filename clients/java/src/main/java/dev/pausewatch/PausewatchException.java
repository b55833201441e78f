package dev.pausewatch;

import io.grpc.Status;
import java.util.Map;
import java.util.Optional;

/**
 * The error of a call: one subtype for each possible reaction of the caller. The subtype is chosen by the
 * machine-readable reason that the server sends ({@code google.rpc.ErrorInfo}, domain {@code pausewatch}), never by its
 * text. The gRPC exception is the {@linkplain #getCause() cause}.
 */
public abstract sealed class PausewatchException extends RuntimeException
        permits InvalidFieldException,
                RequestIdReusedException,
                NoOutstandingElicitationException,
                ElicitationUnknownException,
                ElicitationReleasedException,
                ElicitationExpiredException,
                TooManyElicitationsException,
                LimitExceededException,
                UnauthenticatedException,
                PermissionDeniedException,
                StoreUnavailableException,
                UnavailableException,
                DeadlineExceededException,
                OtherException {

    private static final long serialVersionUID = 1;

    private final transient Failure failure;

    PausewatchException(Failure failure) {
        super(failure.message(), failure.cause());
        this.failure = failure;
    }

    /** The gRPC status: the server's, or this library's own if there was no answer. */
    public final Status status() {
        return failure.status();
    }

    /** The server's reason, for example {@code ELICITATION_EXPIRED}; empty when it gave none, or never answered. */
    public final Optional<String> reason() {
        return failure.reason();
    }

    /** Every dynamic part of the message, by name; empty when the server gave no reason. */
    public final Map<String, String> metadata() {
        return failure.metadata();
    }

    /** Whether the same call may succeed if it is repeated with the same request id. */
    public boolean isTransient() {
        return false;
    }
}
