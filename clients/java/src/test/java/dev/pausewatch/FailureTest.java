package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class FailureTest {
    static StatusRuntimeException refusal(Status.Code code, String reason, String domain) {
        ErrorInfo info = ErrorInfo.newBuilder()
                .setReason(reason)
                .setDomain(domain)
                .putMetadata("thread_id", "t")
                .build();
        return StatusProto.toStatusRuntimeException(com.google.rpc.Status.newBuilder()
                .setCode(code.value())
                .setMessage("in words")
                .addDetails(Any.pack(info))
                .build());
    }

    /** A refusal for a limit; without RetryInfo if {@code retryDelay} is null. */
    static StatusRuntimeException exceeded(String limit, Duration retryDelay) {
        ErrorInfo info = ErrorInfo.newBuilder()
                .setReason("LIMIT_EXCEEDED")
                .setDomain("pausewatch")
                .putMetadata("limit", limit)
                .build();
        com.google.rpc.Status.Builder status = com.google.rpc.Status.newBuilder()
                .setCode(Status.Code.RESOURCE_EXHAUSTED.value())
                .setMessage("in words")
                .addDetails(Any.pack(info));
        if (retryDelay != null) {
            com.google.protobuf.Duration delay = com.google.protobuf.Duration.newBuilder()
                    .setSeconds(retryDelay.getSeconds())
                    .setNanos(retryDelay.getNano())
                    .build();
            status.addDetails(
                    Any.pack(RetryInfo.newBuilder().setRetryDelay(delay).build()));
        }
        return StatusProto.toStatusRuntimeException(status.build());
    }

    /** What a call of the shared vectors ends with. */
    static StatusRuntimeException error(JsonObject vector) {
        com.google.rpc.Status.Builder status = com.google.rpc.Status.newBuilder()
                .setCode(Status.Code.valueOf(vector.get("code").getAsString()).value());
        if (vector.has("reason")) {
            ErrorInfo.Builder info = ErrorInfo.newBuilder()
                    .setReason(vector.get("reason").getAsString())
                    .setDomain("pausewatch");
            if (vector.has("limit")) {
                info.putMetadata("limit", vector.get("limit").getAsString());
            }
            status.addDetails(Any.pack(info.build()));
        }
        if (vector.has("retry_after_ms")) {
            com.google.protobuf.Duration delay = com.google.protobuf.Duration.newBuilder()
                    .setSeconds(vector.get("retry_after_ms").getAsLong() / 1_000)
                    .build();
            status.addDetails(
                    Any.pack(RetryInfo.newBuilder().setRetryDelay(delay).build()));
        }
        return StatusProto.toStatusRuntimeException(status.build());
    }

    @ParameterizedTest
    @CsvSource({
        "REQUEST_ID_REUSED, RequestIdReusedException, false",
        "NO_OUTSTANDING_ELICITATION, NoOutstandingElicitationException, false",
        "ELICITATION_UNKNOWN, ElicitationUnknownException, false",
        "ELICITATION_RELEASED, ElicitationReleasedException, false",
        "ELICITATION_EXPIRED, ElicitationExpiredException, false",
        "TOO_MANY_ELICITATIONS, TooManyElicitationsException, false",
        "STORE_UNAVAILABLE, StoreUnavailableException, true",
        "OF_A_NEWER_SERVER, OtherException, false",
    })
    void typesFollowTheReason(String reason, String type, boolean isTransient) {
        StatusRuntimeException cause = refusal(Status.Code.NOT_FOUND, reason, "pausewatch");
        PausewatchException error = Failure.of(cause);
        assertEquals(type, error.getClass().getSimpleName());
        assertEquals(isTransient, error.isTransient());
        assertEquals(Optional.of(reason), error.reason());
        assertEquals(Map.of("thread_id", "t"), error.metadata());
        assertEquals(Status.Code.NOT_FOUND, error.status().getCode());
        assertEquals("in words", error.getMessage());
        assertSame(cause, error.getCause());
    }

    @ParameterizedTest
    @CsvSource({
        "UNAUTHENTICATED, TOKEN_EXPIRED, UnauthenticatedException",
        "PERMISSION_DENIED, THREAD_FORBIDDEN, PermissionDeniedException",
    })
    void whoNeedsAnotherTokenIsToldSo(Status.Code code, String reason, String type) {
        PausewatchException error = Failure.of(refusal(code, reason, "pausewatch"));
        assertEquals(type, error.getClass().getSimpleName());
        assertEquals(Optional.of(reason), error.reason());
    }

    @ParameterizedTest
    @CsvSource({
        "PT0.02S, PT0.02S",
        "PT0S, PT0S",
        "-PT1S, PT0S",
        ", ",
    })
    void aLimitIsNamedAndSaysWhenToTryAgain(Duration sent, Duration retryAfter) {
        StatusRuntimeException cause = exceeded("open-elicitations-per-caller", sent);
        LimitExceededException error = assertInstanceOf(LimitExceededException.class, Failure.of(cause));
        assertEquals("open-elicitations-per-caller", error.limit());
        assertEquals(Optional.ofNullable(retryAfter), error.retryAfter());
        assertEquals(Optional.of("LIMIT_EXCEEDED"), error.reason());
        assertEquals(Status.Code.RESOURCE_EXHAUSTED, error.status().getCode());
        assertSame(cause, error.getCause());
    }

    @Test
    void aTimeThatNobodyLivesToSeeIsReadToo() {
        com.google.protobuf.Duration longest = com.google.protobuf.Duration.newBuilder()
                .setSeconds(Long.MAX_VALUE)
                .setNanos(Integer.MAX_VALUE)
                .build();
        StatusRuntimeException cause = StatusProto.toStatusRuntimeException(com.google.rpc.Status.newBuilder()
                .setCode(Status.Code.RESOURCE_EXHAUSTED.value())
                .addDetails(Any.pack(ErrorInfo.newBuilder()
                        .setReason("LIMIT_EXCEEDED")
                        .setDomain("pausewatch")
                        .build()))
                .addDetails(
                        Any.pack(RetryInfo.newBuilder().setRetryDelay(longest).build()))
                .build());
        LimitExceededException error = assertInstanceOf(LimitExceededException.class, Failure.of(cause));
        assertEquals("", error.limit());
        assertTrue(error.retryAfter().orElseThrow().toDays() > 1_000_000);
    }

    @ParameterizedTest
    @CsvSource({
        "calls-per-second, PT0.02S, PT0.02S",
        "calls-per-second-per-caller, , PT1S",
        "open-elicitations-per-caller, PT0.02S, ",
        "streams, , ",
    })
    void onlyTheLimitOfCallsASecondIsWorthAnotherTry(String limit, Duration sent, Duration wait) {
        LimitExceededException error =
                assertInstanceOf(LimitExceededException.class, Failure.of(exceeded(limit, sent)));
        assertEquals(wait != null, error.isTransient());
        assertEquals(Optional.ofNullable(wait), error.callLessOften());
    }

    @Test
    void aForeignReasonAndAReasonInTheTextAreNone() {
        PausewatchException foreign = Failure.of(refusal(Status.Code.NOT_FOUND, "ELICITATION_EXPIRED", "example.com"));
        assertInstanceOf(OtherException.class, foreign);
        assertTrue(foreign.reason().isEmpty());
        assertInstanceOf(
                OtherException.class,
                Failure.of(
                        Status.NOT_FOUND.withDescription("ELICITATION_EXPIRED").asRuntimeException()));
    }

    @Test
    void whatBrokeOnThisSideIsUnavailableWhateverItsCode() {
        PausewatchException reset = Failure.of(
                Status.UNKNOWN.withCause(new IOException("reset by peer")).asRuntimeException());
        assertInstanceOf(UnavailableException.class, reset);
        assertEquals(Status.Code.UNAVAILABLE, reset.status().getCode());
        assertTrue(reset.isTransient());
        PausewatchException stream = Failure.of(Status.CANCELLED
                .withDescription("RST_STREAM closed stream. HTTP/2 error code: CANCEL")
                .asRuntimeException());
        assertInstanceOf(UnavailableException.class, stream);
        for (String text : List.of("Abrupt GOAWAY closed sent stream", "Connection closed after GOAWAY")) {
            PausewatchException connection = Failure.of(Status.RESOURCE_EXHAUSTED
                    .withDescription(text + ". HTTP/2 error code: ENHANCE_YOUR_CALM")
                    .asRuntimeException());
            assertInstanceOf(UnavailableException.class, connection);
        }
        assertFalse(Failure.of(
                        Status.UNKNOWN.withDescription("the server's own words").asRuntimeException())
                .isTransient());
    }

    @Test
    void aRefusalMadeHereReadsAsTheServersDoes() {
        PausewatchException made = Failure.invalidField("thread_id", "is empty");
        InvalidFieldException read = assertInstanceOf(InvalidFieldException.class, Failure.of(made.getCause()));
        assertEquals("thread_id", read.field());
        assertEquals("thread_id is empty", read.description());
        assertEquals(Optional.of("INVALID_FIELD"), read.reason());
    }
}
