package dev.pausewatch;

import io.grpc.Status;
import java.util.Map;
import java.util.Optional;

/**
 * Why a call failed: one subtype for each thing that a caller does next, found by the machine-readable reason that the server sends
 * ({@code google.rpc.ErrorInfo}, domain {@code pausewatch}), never by a message's text. The gRPC exception is the {@linkplain #getCause() cause}.
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

    /** The gRPC status as it came, or as this library made it when nothing came. */
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

    /** Whether the call may succeed if it is made again just so, with the same request id. */
    public boolean isTransient() {
        return false;
    }
}
