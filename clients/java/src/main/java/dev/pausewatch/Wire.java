package dev.pausewatch;

import dev.pausewatch.v1.DecrementElicitationRequest;
import dev.pausewatch.v1.DecrementElicitationResponse;
import dev.pausewatch.v1.IncrementElicitationRequest;
import dev.pausewatch.v1.IncrementElicitationResponse;
import dev.pausewatch.v1.ListPauseStatesRequest;
import dev.pausewatch.v1.ListPauseStatesResponse;
import dev.pausewatch.v1.ListPausesRequest;
import dev.pausewatch.v1.ListPausesResponse;
import dev.pausewatch.v1.RenewElicitationRequest;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.UUID;

/** Converts between the messages of the proto and this library's own types. */
final class Wire {
    /**
     * The ranges of the well-known types: a Duration has up to 10,000 years in both directions, a Timestamp the years 1
     * to 9999.
     */
    private static final long MOST_SECONDS = 315_576_000_000L;

    private static final long FIRST_SECOND = -62_135_596_800L;
    private static final long LAST_SECOND = 253_402_300_799L;

    private Wire() {}

    static IncrementElicitationRequest increment(IncrementElicitation call) {
        IncrementElicitationRequest.Builder request = IncrementElicitationRequest.newBuilder()
                .setThreadId(call.threadId())
                .setRequestId(named(call.requestId()))
                .setReason(call.reason())
                .setHolder(call.holder());
        call.ttl().ifPresent(ttl -> request.setTtl(duration(ttl)));
        return request.build();
    }

    static DecrementElicitationRequest decrement(DecrementElicitation call) {
        DecrementElicitationRequest.Builder request = DecrementElicitationRequest.newBuilder()
                .setThreadId(call.threadId())
                .setRequestId(named(call.requestId()));
        call.elicitationId().ifPresent(request::setElicitationId);
        return request.build();
    }

    static RenewElicitationRequest renew(RenewElicitation call) {
        RenewElicitationRequest.Builder request = RenewElicitationRequest.newBuilder()
                .setThreadId(call.threadId())
                .setElicitationId(call.elicitationId());
        call.ttl().ifPresent(ttl -> request.setTtl(duration(ttl)));
        return request.build();
    }

    static ListPauseStatesRequest list(ListPauseStates call) {
        return ListPauseStatesRequest.newBuilder()
                .setPageSize(call.pageSize())
                .setPageToken(call.pageToken())
                .setIncludeRunning(call.includeRunning())
                .build();
    }

    static ListPausesRequest listPauses(ListPauses call) {
        ListPausesRequest.Builder request = ListPausesRequest.newBuilder()
                .setThreadId(call.threadId())
                .setPageSize(call.pageSize())
                .setPageToken(call.pageToken());
        call.startTime().ifPresent(time -> request.setStartTime(timestamp(time)));
        call.endTime().ifPresent(time -> request.setEndTime(timestamp(time)));
        return request.build();
    }

    static IncrementResult increment(IncrementElicitationResponse response) {
        return new IncrementResult(
                response.getCount(),
                response.getPaused(),
                response.getRevision(),
                elicitation(response.getElicitation()),
                response.getWatchers());
    }

    static DecrementResult decrement(DecrementElicitationResponse response) {
        return new DecrementResult(response.getCount(), response.getPaused(), response.getRevision());
    }

    static PauseStatePage list(ListPauseStatesResponse response) {
        return new PauseStatePage(
                response.getPauseStatesList().stream().map(Wire::state).toList(), response.getNextPageToken());
    }

    static PausePage pauses(ListPausesResponse response) {
        return new PausePage(
                response.getPausesList().stream().map(Wire::pause).toList(),
                response.getNextPageToken(),
                instant(response.getHistoryStartTime()));
    }

    private static Pause pause(dev.pausewatch.v1.Pause pause) {
        return new Pause(
                pause.getThreadId(),
                instant(pause.getStartTime()),
                instant(pause.getEndTime()),
                duration(pause.getDuration()),
                end(pause.getEndedBy()),
                pause.getElicitationsList().stream().map(Wire::closed).toList(),
                pause.getOmittedElicitations());
    }

    private static ClosedElicitation closed(dev.pausewatch.v1.ClosedElicitation elicitation) {
        return new ClosedElicitation(
                elicitation.getElicitationId(),
                elicitation.getReason(),
                elicitation.getHolder(),
                instant(elicitation.getCreateTime()),
                instant(elicitation.getEndTime()),
                end(elicitation.getEndedBy()));
    }

    private static PauseEnd end(dev.pausewatch.v1.PauseEnd end) {
        return switch (end) {
            case PAUSE_END_DECREMENTED -> PauseEnd.DECREMENTED;
            case PAUSE_END_RELEASED -> PauseEnd.RELEASED;
            case PAUSE_END_EXPIRED -> PauseEnd.EXPIRED;
            case PAUSE_END_MAX_PAUSE -> PauseEnd.MAX_PAUSE;
            case PAUSE_END_UNSPECIFIED, UNRECOGNIZED -> PauseEnd.UNKNOWN;
        };
    }

    static PauseState state(dev.pausewatch.v1.PauseState state) {
        return new PauseState(
                state.getThreadId(),
                state.getCount(),
                state.getPaused(),
                state.getRevision(),
                duration(state.getPausedTotal()),
                state.hasPausedFor() ? Optional.of(duration(state.getPausedFor())) : Optional.empty(),
                state.hasPauseStartTime() ? Optional.of(instant(state.getPauseStartTime())) : Optional.empty(),
                state.getElicitationsList().stream().map(Wire::elicitation).toList(),
                state.getStoreEpoch());
    }

    static Elicitation elicitation(dev.pausewatch.v1.Elicitation elicitation) {
        return new Elicitation(
                elicitation.getElicitationId(),
                elicitation.getThreadId(),
                elicitation.getReason(),
                elicitation.getHolder(),
                instant(elicitation.getCreateTime()),
                elicitation.hasExpireTime() ? Optional.of(instant(elicitation.getExpireTime())) : Optional.empty());
    }

    /** A call without a request id gets a random one, so that its retries count once. */
    private static String named(String requestId) {
        return requestId.isEmpty() ? UUID.randomUUID().toString() : requestId;
    }

    private static com.google.protobuf.Duration duration(Duration duration) {
        return com.google.protobuf.Duration.newBuilder()
                .setSeconds(duration.getSeconds())
                .setNanos(duration.getNano())
                .build();
    }

    static Duration duration(com.google.protobuf.Duration duration) {
        return Duration.ofSeconds(clamp(duration.getSeconds(), -MOST_SECONDS, MOST_SECONDS), duration.getNanos());
    }

    private static Instant instant(com.google.protobuf.Timestamp timestamp) {
        return Instant.ofEpochSecond(clamp(timestamp.getSeconds(), FIRST_SECOND, LAST_SECOND), timestamp.getNanos());
    }

    private static com.google.protobuf.Timestamp timestamp(Instant instant) {
        return com.google.protobuf.Timestamp.newBuilder()
                .setSeconds(instant.getEpochSecond())
                .setNanos(instant.getNano())
                .build();
    }

    private static long clamp(long value, long least, long most) {
        return Math.max(least, Math.min(most, value));
    }
}
