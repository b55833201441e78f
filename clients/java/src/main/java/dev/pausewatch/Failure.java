package dev.pausewatch;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.pausewatch.v1.Refusal;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.netty.handler.codec.http2.Http2Exception;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Converts a gRPC status to a {@link PausewatchException}. Only this class knows the server's reasons.
 *
 * <p>1. The exception's type depends on the reason, else on the code; never on the server's text.
 *
 * <p>2. If the connection is lost before the answer is complete, the call is UNAVAILABLE, whatever code gRPC reports.
 */
record Failure(
        Status status,
        Optional<String> reason,
        Map<String, String> metadata,
        String message,
        @Nullable Throwable cause) {
    private static final String DOMAIN = "pausewatch";
    /**
     * How grpc-java's texts begin for a stream that ended without a status: it was reset, or the server gave up the whole connection. The
     * client makes these statuses, with a code that depends on the code of HTTP/2.
     */
    private static final List<String> RESETS =
            List.of("RST_STREAM closed stream", "Abrupt GOAWAY closed ", "Connection closed after GOAWAY");

    /** The error of a call to this address. If no connection could be made, the text has the address and the cause. */
    static PausewatchException of(Throwable thrown, String address) {
        Status status = Status.fromThrowable(thrown);
        boolean isNobodyThere = status.getCode() == Status.Code.UNAVAILABLE && status.getCause() != null;
        if (!isNobodyThere && !(status.getCause() instanceof Http2Exception)) {
            return of(thrown);
        }
        String said = Objects.requireNonNullElse(
                status.getCause().getMessage(), status.getCause().toString());
        return made(Status.UNAVAILABLE, address + ": " + said, thrown);
    }

    /** The error of a call that ended with {@code thrown}. */
    static PausewatchException of(Throwable thrown) {
        Status status = Status.fromThrowable(thrown);
        List<Any> details = details(thrown);
        Optional<ErrorInfo> info = detail(details, ErrorInfo.class)
                .filter(known -> known.getDomain().equals(DOMAIN));
        String reason = info.map(ErrorInfo::getReason).orElse("");
        String message = Objects.requireNonNullElse(
                status.getDescription(), status.getCode().name());
        Map<String, String> metadata =
                info.map(known -> Map.copyOf(known.getMetadataMap())).orElse(Map.of());
        Failure failure = new Failure(status, info.map(ErrorInfo::getReason), metadata, message, thrown);
        return switch (reason) {
            case "INVALID_FIELD" -> invalidField(failure, detail(details, BadRequest.class));
            case "REQUEST_ID_REUSED" -> new RequestIdReusedException(failure);
            case "NO_OUTSTANDING_ELICITATION" -> new NoOutstandingElicitationException(failure);
            case "ELICITATION_UNKNOWN" -> new ElicitationUnknownException(failure);
            case "ELICITATION_RELEASED" -> new ElicitationReleasedException(failure);
            case "ELICITATION_EXPIRED" -> new ElicitationExpiredException(failure);
            case "TOO_MANY_ELICITATIONS" -> new TooManyElicitationsException(failure);
            case "LIMIT_EXCEEDED" -> limitExceeded(failure, detail(details, RetryInfo.class));
            case "STORE_UNAVAILABLE" -> new StoreUnavailableException(failure);
            default -> withoutReason(failure);
        };
    }

    /** The error for a field that this library refuses before it sends anything, with the wording of the server. */
    static PausewatchException invalidField(String field, String problem) {
        String description = field + " " + problem;
        BadRequest.FieldViolation violation = BadRequest.FieldViolation.newBuilder()
                .setField(field)
                .setDescription(description)
                .build();
        ErrorInfo info = ErrorInfo.newBuilder()
                .setReason("INVALID_FIELD")
                .setDomain(DOMAIN)
                .putMetadata("field", field)
                .build();
        return of(StatusProto.toStatusRuntimeException(com.google.rpc.Status.newBuilder()
                .setCode(Status.Code.INVALID_ARGUMENT.value())
                .setMessage(description)
                .addDetails(Any.pack(info))
                .addDetails(Any.pack(
                        BadRequest.newBuilder().addFieldViolations(violation).build()))
                .build()));
    }

    /** The error for a deadline that passed in this process. */
    static PausewatchException deadline(Duration after, Throwable cause) {
        return made(Status.DEADLINE_EXCEEDED, "no answer within " + Nanos.text(after), cause);
    }

    /** An error that this library makes itself, without an answer of the server. */
    static PausewatchException made(Status status, String message, @Nullable Throwable cause) {
        return of(new StatusRuntimeException(status.withDescription(message).withCause(cause)));
    }

    /** The error for a refused request of a stream. */
    static PausewatchException refused(Refusal refusal) {
        ErrorInfo info = ErrorInfo.newBuilder()
                .setReason(refusal.getReason())
                .setDomain(DOMAIN)
                .build();
        com.google.rpc.Status.Builder status = com.google.rpc.Status.newBuilder()
                .setCode(refusal.getCode())
                .setMessage(refusal.getMessage())
                .addDetails(Any.pack(info));
        if (refusal.hasRetryAfter()) {
            status.addDetails(Any.pack(RetryInfo.newBuilder()
                    .setRetryDelay(refusal.getRetryAfter())
                    .build()));
        }
        return of(StatusProto.toStatusRuntimeException(status.build()));
    }

    private static PausewatchException withoutReason(Failure failure) {
        return switch (failure.status.getCode()) {
            case UNAVAILABLE -> new UnavailableException(failure);
            case DEADLINE_EXCEEDED -> new DeadlineExceededException(failure);
            // Chosen by the code, without a reason: a proxy in front of the server may require a token too.
            case UNAUTHENTICATED -> new UnauthenticatedException(failure);
            case PERMISSION_DENIED -> new PermissionDeniedException(failure);
            default ->
                failure.isBrokenConnection()
                        ? new UnavailableException(failure.unavailable())
                        : new OtherException(failure);
        };
    }

    private boolean isBrokenConnection() {
        return status.getCause() instanceof java.io.IOException
                || RESETS.stream().anyMatch(message::startsWith);
    }

    private Failure unavailable() {
        String text = "connection lost: " + message;
        return new Failure(Status.UNAVAILABLE.withDescription(text).withCause(cause), reason, metadata, text, cause);
    }

    private static PausewatchException invalidField(Failure failure, Optional<BadRequest> details) {
        BadRequest.FieldViolation violation = details.stream()
                .flatMap(bad -> bad.getFieldViolationsList().stream())
                .findFirst()
                .orElse(BadRequest.FieldViolation.getDefaultInstance());
        String description = violation.getDescription().isEmpty() ? failure.message : violation.getDescription();
        return new InvalidFieldException(failure, violation.getField(), description);
    }

    private static PausewatchException limitExceeded(Failure failure, Optional<RetryInfo> details) {
        Optional<Duration> retryAfter =
                details.filter(RetryInfo::hasRetryDelay).map(info -> duration(info.getRetryDelay()));
        return new LimitExceededException(failure, failure.metadata.getOrDefault("limit", ""), retryAfter);
    }

    /** A negative duration counts as 0. */
    private static Duration duration(com.google.protobuf.Duration sent) {
        long most = Long.MAX_VALUE / 2;
        // A server may send any number, and a Duration throws beyond its range.
        Duration read = Duration.ofSeconds(Math.max(-most, Math.min(most, sent.getSeconds())), sent.getNanos());
        return read.isNegative() ? Duration.ZERO : read;
    }

    private static List<Any> details(Throwable thrown) {
        try {
            com.google.rpc.Status status = StatusProto.fromThrowable(thrown);
            return status == null ? List.of() : status.getDetailsList();
        } catch (IllegalArgumentException malformed) {
            // As good as absent: the code still tells.
            return List.of();
        }
    }

    private static <M extends Message> Optional<M> detail(List<Any> details, Class<M> type) {
        for (Any detail : details) {
            if (detail.is(type)) {
                try {
                    return Optional.of(detail.unpack(type));
                } catch (InvalidProtocolBufferException malformed) {
                    // As good as absent: the code still tells.
                    return Optional.empty();
                }
            }
        }
        return Optional.empty();
    }
}
