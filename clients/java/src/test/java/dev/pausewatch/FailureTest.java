package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
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
