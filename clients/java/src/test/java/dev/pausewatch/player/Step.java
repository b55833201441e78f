package dev.pausewatch.player;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import dev.pausewatch.Client;
import dev.pausewatch.Config;
import dev.pausewatch.DeadlineOptions;
import dev.pausewatch.DecrementElicitation;
import dev.pausewatch.DecrementResult;
import dev.pausewatch.ElicitationExpiredException;
import dev.pausewatch.Environments;
import dev.pausewatch.Hold;
import dev.pausewatch.HoldBuilder;
import dev.pausewatch.IncrementElicitation;
import dev.pausewatch.IncrementResult;
import dev.pausewatch.ListPauseStates;
import dev.pausewatch.ListPauses;
import dev.pausewatch.PausableDeadline;
import dev.pausewatch.PausePage;
import dev.pausewatch.PauseStatePage;
import dev.pausewatch.RenewElicitation;
import dev.pausewatch.WatchBuilder;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;

/** One step of a case. */
final class Step {
    private static final long NANOS_PER_MS = 1_000_000;

    private final Cast cast;
    private final JsonObject step;

    /** What a block is left by when the case says so. */
    private static final class OwnException extends Exception {
        private static final long serialVersionUID = 1;
    }

    Step(Cast cast, JsonObject step) {
        this.cast = cast;
        this.step = step;
    }

    Map<String, Object> play() throws Exception {
        return switch (text("do")) {
            case "client" -> openClient();
            case "close" -> close();
            case "reset" -> reset();
            case "increment" -> increment();
            case "decrement" -> decrement();
            case "renew" -> renew();
            case "get" -> Answers.state(client().getPauseState(text("thread_id")));
            case "list" -> list();
            case "list_pauses" -> listPauses();
            case "hold" -> hold();
            case "release" -> Answers.ending(cast.holds.get(text("hold")).release());
            case "lease" ->
                Map.of("lease", Answers.name(cast.holds.get(text("hold")).lease()));
            case "lost" ->
                Map.of("lease", Answers.name(cast.holds.get(text("hold")).lost().get()));
            case "hold_block" -> holdBlock();
            case "watch" -> watch();
            case "next" ->
                cast.watches
                        .get(text("watch"))
                        .next(duration("within_ms").orElseThrow())
                        .map(Answers::event)
                        .orElse(Map.of("event", "nothing"));
            case "add" -> {
                cast.watches.get(text("watch")).add(text("thread_id"));
                yield Map.of();
            }
            case "remove" -> {
                cast.watches.get(text("watch")).remove(text("thread_id"));
                yield Map.of();
            }
            case "unwatch" -> unwatch();
            case "timeout" -> timeout();
            case "read" -> Answers.reading(deadline().read());
            case "expired" -> expired();
            case "pause" -> pause();
            case "resume" -> resume();
            case "await_thread" -> awaitThread();
            case "unawait_thread" -> unawaitThread();
            case "stop" -> stop();
            case "expire_together" -> expireTogether();
            case "timeout_block" -> timeoutBlock();
            default -> throw new IllegalArgumentException("unknown: " + text("do"));
        };
    }

    private Map<String, Object> openClient() {
        Config.Builder config = Environments.config(environment()).address(text("address"));
        duration("deadline_ms").ifPresent(config::deadline);
        if (step.has("retries")) {
            config.retries(step.get("retries").getAsInt());
        }
        optional("tls_ca").map(Path::of).ifPresent(config::tlsCa);
        optional("token").ifPresent(config::token);
        optional("token_file").map(Path::of).ifPresent(path -> config.tokenSource(() -> read(path)));
        Client old = cast.clients.put(text("client"), Client.open(config.build()));
        if (old != null) {
            old.close();
        }
        return Map.of();
    }

    private static String read(Path path) {
        try {
            return Files.readString(path).strip();
        } catch (IOException unreadable) {
            throw new UncheckedIOException(unreadable);
        }
    }

    private Map<String, String> environment() {
        Map<String, String> variables = new HashMap<>();
        if (step.has("environment")) {
            step.getAsJsonObject("environment")
                    .asMap()
                    .forEach((name, value) -> variables.put(name, value.getAsString()));
        }
        return variables;
    }

    private Map<String, Object> close() {
        client().close();
        return Map.of();
    }

    private Map<String, Object> reset() {
        cast.reset();
        return Map.of();
    }

    private Map<String, Object> increment() {
        IncrementElicitation call = new IncrementElicitation(
                text("thread_id"),
                optional("request_id").orElse(""),
                optional("reason").orElse(""),
                optional("holder").orElse(""),
                duration("ttl_ms"));
        IncrementResult result = client().incrementElicitation(call);
        return Map.of(
                "count", result.count(),
                "paused", result.paused(),
                "revision", result.revision(),
                "elicitation_id", result.elicitation().elicitationId(),
                "watchers", result.watchers());
    }

    private Map<String, Object> decrement() {
        DecrementElicitation call = new DecrementElicitation(
                text("thread_id"),
                optional("elicitation_id"),
                optional("request_id").orElse(""));
        DecrementResult result = client().decrementElicitation(call);
        return Map.of("count", result.count(), "paused", result.paused(), "revision", result.revision());
    }

    private Map<String, Object> renew() {
        RenewElicitation call = new RenewElicitation(text("thread_id"), text("elicitation_id"), duration("ttl_ms"));
        return Answers.elicitation(client().renewElicitation(call));
    }

    private Map<String, Object> list() {
        ListPauseStates call = new ListPauseStates(
                step.has("page_size") ? step.get("page_size").getAsInt() : 0,
                optional("page_token").orElse(""),
                step.has("include_running") && step.get("include_running").getAsBoolean());
        PauseStatePage page = client().listPauseStates(call);
        return Map.of(
                "states", page.pauseStates().stream().map(Answers::state).toList(),
                "next_page_token", page.nextPageToken());
    }

    private Map<String, Object> listPauses() {
        ListPauses call = ListPauses.of(optional("thread_id").orElse(""))
                .withPageSize(step.has("page_size") ? step.get("page_size").getAsInt() : 0)
                .withPageToken(optional("page_token").orElse(""));
        PausePage page = client().listPauses(call);
        return Map.of(
                "pauses", page.pauses().stream().map(Answers::pause).toList(), "next_page_token", page.nextPageToken());
    }

    private Map<String, Object> hold() {
        Hold hold = holdBuilder().open();
        cast.holds.put(text("hold"), hold);
        if (hold.failure().isPresent()) {
            return Map.of();
        }
        return Map.of(
                "count", hold.opened().count(),
                "elicitation_id", hold.elicitation().elicitationId());
    }

    private HoldBuilder holdBuilder() {
        HoldBuilder builder = optional("thread_id").map(client()::hold).orElseGet(client()::hold);
        optional("reason").ifPresent(builder::reason);
        optional("holder").ifPresent(builder::holder);
        duration("ttl_ms").ifPresent(builder::ttl);
        if (step.has("best_effort") && step.get("best_effort").getAsBoolean()) {
            builder.bestEffort();
        }
        return builder;
    }

    private Map<String, Object> holdBlock() throws InterruptedException {
        Hold held = null;
        try (Hold hold = holdBuilder().open()) {
            held = hold;
            Thread.sleep(step.get("stay_ms").getAsLong());
            if (step.get("throws").getAsBoolean()) {
                throw new OwnException();
            }
        } catch (OwnException own) {
            return Map.of("left", "error");
        } catch (ElicitationExpiredException late) {
            return Map.of("left", "end", "ending", "expired");
        }
        Map<String, Object> answer = Answers.ending(held.release());
        answer.put("left", "end");
        return answer;
    }

    private Map<String, Object> watch() {
        WatchBuilder builder = step.has("thread_ids") ? client().watch(threadIds()) : client().watchAll();
        if (step.has("include_elicitations") && step.get("include_elicitations").getAsBoolean()) {
            builder.includeElicitations();
        }
        if (step.has("observer") && step.get("observer").getAsBoolean()) {
            builder.observer();
        }
        cast.watches.put(text("watch"), builder.open());
        return Map.of();
    }

    private List<String> threadIds() {
        JsonArray ids = step.getAsJsonArray("thread_ids");
        List<String> threadIds = new ArrayList<>();
        for (JsonElement id : ids) {
            threadIds.add(id.getAsString());
        }
        return threadIds;
    }

    private Map<String, Object> unwatch() {
        cast.watches.remove(text("watch")).close();
        return Map.of();
    }

    private Map<String, Object> timeout() {
        cast.timeouts.put(text("timeout"), startDeadline());
        return Map.of();
    }

    private PausableDeadline startDeadline() {
        DeadlineOptions options = DeadlineOptions.defaults();
        options = duration("disconnect_grace_ms")
                .map(options::withDisconnectGrace)
                .orElse(options);
        options = duration("max_wall_ms").map(options::withMaxWall).orElse(options);
        return client().deadline(text("thread_id"), duration("limit_ms").orElseThrow(), options);
    }

    private Map<String, Object> expired() throws Exception {
        deadline().expired().get();
        return Answers.reading(deadline().read());
    }

    private Map<String, Object> pause() {
        cast.pauses.put(text("pause"), deadline().pause());
        return Map.of();
    }

    private Map<String, Object> resume() {
        cast.pauses.remove(text("pause")).close();
        return Map.of();
    }

    private Map<String, Object> awaitThread() {
        cast.waits.put(text("timeout") + "/" + text("wait"), deadline().awaitThread(text("thread_id")));
        return Map.of();
    }

    private Map<String, Object> unawaitThread() {
        cast.waits.remove(text("timeout") + "/" + text("wait")).close();
        return Map.of();
    }

    private Map<String, Object> stop() {
        PausableDeadline.Reading last = deadline().read();
        deadline().close();
        return Answers.reading(last);
    }

    private Map<String, Object> expireTogether() throws Exception {
        long end = System.nanoTime() + duration("limit_ms").orElseThrow().toNanos();
        AtomicLong last = new AtomicLong(Long.MIN_VALUE);
        List<PausableDeadline> deadlines = new ArrayList<>();
        List<CompletableFuture<Void>> told = new ArrayList<>();
        for (int number = 0; number < step.get("count").getAsInt(); number++) {
            Duration limit = Duration.ofNanos(end - System.nanoTime());
            PausableDeadline deadline = client().deadline("together-" + number, limit);
            deadlines.add(deadline);
            told.add(deadline.expired().thenRun(() -> last.accumulateAndGet(System.nanoTime() - end, Math::max)));
        }
        for (CompletableFuture<Void> each : told) {
            each.get();
        }
        deadlines.forEach(PausableDeadline::close);
        return Map.of("late_ms", Answers.ms(Duration.ofNanos(last.get())));
    }

    private Map<String, Object> timeoutBlock() {
        long start = System.nanoTime();
        Map<String, Object> answer = new HashMap<>();
        PausableDeadline deadline = startDeadline();
        try (deadline) {
            Executor later =
                    CompletableFuture.delayedExecutor(step.get("work_ms").getAsLong(), TimeUnit.MILLISECONDS);
            answer.put(
                    "outcome",
                    deadline.orTimeout(CompletableFuture.supplyAsync(() -> "finished", later))
                            .join());
        } catch (CompletionException failed) {
            if (!(failed.getCause() instanceof TimeoutException)) {
                throw failed;
            }
            answer.put("outcome", "timed_out");
            deadline.endedBy().ifPresent(by -> answer.put("ended_by", Answers.name(by)));
        }
        answer.put("wall_ms", Answers.ms(Duration.ofNanos(System.nanoTime() - start)));
        return answer;
    }

    private Client client() {
        return cast.clients.get(optional("client").orElse("c"));
    }

    private PausableDeadline deadline() {
        return cast.timeouts.get(text("timeout"));
    }

    private String text(String key) {
        return step.get(key).getAsString();
    }

    private Optional<String> optional(String key) {
        return step.has(key) ? Optional.of(text(key)) : Optional.empty();
    }

    private Optional<Duration> duration(String key) {
        return step.has(key)
                ? Optional.of(Duration.ofNanos(Math.round(step.get(key).getAsDouble() * NANOS_PER_MS)))
                : Optional.empty();
    }
}
