package dev.pausewatch.player;

import dev.pausewatch.ClosedElicitation;
import dev.pausewatch.DeadlineExceededException;
import dev.pausewatch.Elicitation;
import dev.pausewatch.ElicitationExpiredException;
import dev.pausewatch.ElicitationReleasedException;
import dev.pausewatch.ElicitationUnknownException;
import dev.pausewatch.Ending;
import dev.pausewatch.InvalidFieldException;
import dev.pausewatch.LimitExceededException;
import dev.pausewatch.NoOutstandingElicitationException;
import dev.pausewatch.PausableDeadline;
import dev.pausewatch.Pause;
import dev.pausewatch.PauseState;
import dev.pausewatch.PermissionDeniedException;
import dev.pausewatch.RequestIdReusedException;
import dev.pausewatch.StoreUnavailableException;
import dev.pausewatch.TooManyElicitationsException;
import dev.pausewatch.UnauthenticatedException;
import dev.pausewatch.UnavailableException;
import dev.pausewatch.Watch;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/** From this library's types to what the stage reads. */
final class Answers {
    /** By type alone: what is in an exception is not looked at. */
    private static final Map<Class<?>, String> TYPES = Map.ofEntries(
            Map.entry(InvalidFieldException.class, "INVALID_FIELD"),
            Map.entry(RequestIdReusedException.class, "REQUEST_ID_REUSED"),
            Map.entry(NoOutstandingElicitationException.class, "NO_OUTSTANDING_ELICITATION"),
            Map.entry(ElicitationUnknownException.class, "ELICITATION_UNKNOWN"),
            Map.entry(ElicitationReleasedException.class, "ELICITATION_RELEASED"),
            Map.entry(ElicitationExpiredException.class, "ELICITATION_EXPIRED"),
            Map.entry(TooManyElicitationsException.class, "TOO_MANY_ELICITATIONS"),
            Map.entry(LimitExceededException.class, "LIMIT_EXCEEDED"),
            Map.entry(StoreUnavailableException.class, "STORE_UNAVAILABLE"),
            Map.entry(UnauthenticatedException.class, "UNAUTHENTICATED"),
            Map.entry(PermissionDeniedException.class, "PERMISSION_DENIED"),
            Map.entry(UnavailableException.class, "UNAVAILABLE"),
            Map.entry(DeadlineExceededException.class, "DEADLINE_EXCEEDED"));

    private Answers() {}

    static Map<String, Object> error(Exception thrown) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("type", TYPES.getOrDefault(thrown.getClass(), "OTHER"));
        answer.put("message", String.valueOf(thrown));
        if (thrown instanceof InvalidFieldException invalid) {
            answer.put("field", invalid.field());
        }
        return answer;
    }

    static Map<String, Object> state(PauseState state) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("thread_id", state.threadId());
        answer.put("count", state.count());
        answer.put("paused", state.paused());
        answer.put("revision", state.revision());
        answer.put("paused_total_ms", ms(state.pausedTotal()));
        state.pausedFor().ifPresent(pausedFor -> answer.put("paused_for_ms", ms(pausedFor)));
        answer.put(
                "elicitations",
                state.elicitations().stream().map(Answers::elicitation).toList());
        return answer;
    }

    static Map<String, Object> elicitation(Elicitation elicitation) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("elicitation_id", elicitation.elicitationId());
        answer.put("thread_id", elicitation.threadId());
        answer.put("reason", elicitation.reason());
        answer.put("holder", elicitation.holder());
        elicitation
                .expireTime()
                .ifPresent(end -> answer.put("lease_ms", ms(Duration.between(elicitation.createTime(), end))));
        return answer;
    }

    static Map<String, Object> pause(Pause pause) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("thread_id", pause.threadId());
        answer.put("duration_ms", ms(pause.duration()));
        answer.put("ended_by", name(pause.endedBy()));
        answer.put(
                "elicitations",
                pause.elicitations().stream().map(Answers::closed).toList());
        answer.put("omitted_elicitations", pause.omittedElicitations());
        return answer;
    }

    private static Map<String, Object> closed(ClosedElicitation elicitation) {
        return Map.of(
                "elicitation_id",
                elicitation.elicitationId(),
                "reason",
                elicitation.reason(),
                "holder",
                elicitation.holder(),
                "ended_by",
                name(elicitation.endedBy()));
    }

    static Map<String, Object> ending(Ending ending) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put(
                "ending",
                ending.getClass()
                        .getSimpleName()
                        .replaceAll("(?<=[a-z])(?=[A-Z])", "_")
                        .toLowerCase(Locale.ROOT));
        if (ending instanceof Ending.Closed closed) {
            answer.put("count", closed.count());
        }
        return answer;
    }

    static Map<String, Object> event(Watch.Event event) {
        if (event instanceof Watch.Event.State update) {
            return Map.of(
                    "event", "state", "state", state(update.state()), "gap", update.gap(), "changed", update.changed());
        }
        return Map.of("event", event instanceof Watch.Event.SnapshotComplete ? "snapshot_complete" : "disconnected");
    }

    static Map<String, Object> reading(PausableDeadline.Reading reading) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("wall_ms", ms(reading.wall()));
        answer.put("charged_ms", ms(reading.elapsed()));
        answer.put("remaining_ms", ms(reading.remaining()));
        answer.put("paused", reading.paused());
        answer.put("expired", reading.expired());
        reading.endedBy().ifPresent(by -> answer.put("ended_by", name(by)));
        answer.put("linked", reading.linked());
        return answer;
    }

    static String name(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT);
    }

    static double ms(Duration duration) {
        return duration.toNanos() / 1e6;
    }
}
