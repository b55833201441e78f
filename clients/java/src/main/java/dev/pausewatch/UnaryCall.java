package dev.pausewatch;

import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * One unary call with a deadline, and within it retries while no coordinator answers, or the limit of calls per second is
 * exceeded.
 *
 * <p>1. The deadline covers everything: connecting, all attempts and the delays between them.
 *
 * <p>2. UNAVAILABLE and STORE_UNAVAILABLE are retried: the request id, the same each time, makes the repeated call count once. The
 * limit of calls per second is retried after the delay that the server sends; such a call changed nothing. No other error is
 * retried.
 *
 * <p>3. With several addresses, an attempt that fails to connect, or gets no answer in time, continues at once at the next
 * address. The retry delay comes after a full lap, which counts as one attempt. After STORE_UNAVAILABLE or a limit the client
 * stays: the other replicas have the same store.
 *
 * <p>4. Cancelling the future ends the current attempt, and there is no other.
 */
final class UnaryCall<Q, R, T> {
    private static final int FIRST_RETRY_DELAY_MS = 25;
    private static final int MAX_RETRY_DELAY_MS = 1_000;
    /** The resolution of timers. */
    private static final long TICK_NANOS = TimeUnit.MILLISECONDS.toNanos(2);

    private final Connection connection;
    private final Timer timer;
    private final MethodDescriptor<Q, R> method;
    private final Q request;
    private final Function<R, T> read;
    private final Calls.RetryPolicy policy;
    private final long giveUp;
    /** The caller's: every attempt has it, whichever thread sends the attempt. */
    private final Context context = Context.current();

    private final CompletableFuture<T> answer = new CompletableFuture<>();
    private final Backoff pauses = Backoff.ofMillis(FIRST_RETRY_DELAY_MS, MAX_RETRY_DELAY_MS);
    private int retries;
    /** The number of attempts after which the client moved to another address. */
    private int unanswered;

    private Connection.Position position;
    /** When the attempt under way ends if it has no answer. */
    private long attemptEnd;

    /** The message of the previous attempt, if that ended with {@link UnavailableException}; else null. */
    private @Nullable String nobodyThere;

    private volatile @Nullable ClientCall<Q, R> attempt;

    UnaryCall(
            Connection connection,
            Timer timer,
            MethodDescriptor<Q, R> method,
            Q request,
            Function<R, T> read,
            Calls.RetryPolicy policy) {
        this.connection = connection;
        this.timer = timer;
        this.method = method;
        this.request = request;
        this.read = read;
        this.policy = policy;
        this.giveUp = timer.now() + Nanos.of(policy.deadline());
    }

    CompletableFuture<T> start() {
        if (connection.isClosed()) {
            return CompletableFuture.failedFuture(Core.closed());
        }
        answer.whenComplete((response, thrown) -> {
            if (answer.isCancelled()) {
                cancel();
            }
        });
        connection.endWithThis(answer);
        attempt();
        return answer;
    }

    private void cancel() {
        @Nullable ClientCall<Q, R> last = attempt;
        if (last != null) {
            last.cancel("given up", null);
        }
    }

    private void attempt() {
        if (answer.isDone()) {
            return;
        }
        CompletableFuture<Optional<String>> token = connection.askToken();
        if (!token.isDone()) {
            Timer.Alarm late = timer.in(Math.max(0, left()), () -> answer.completeExceptionally(noTokenInTime()));
            CompletableFuture.anyOf(token, answer).whenComplete((known, thrown) -> late.cancel());
        }
        token.whenComplete((known, noToken) -> {
            if (noToken != null) {
                answer.completeExceptionally(noToken);
            } else {
                context.run(() -> send(known));
            }
        });
    }

    private PausewatchException noTokenInTime() {
        String text = "the token source gave no token within " + Nanos.text(policy.deadline());
        return Failure.made(Status.DEADLINE_EXCEEDED, text, null);
    }

    private void send(Optional<String> token) {
        if (answer.isDone()) {
            return;
        }
        CallOptions options = Connection.with(token, CallOptions.DEFAULT);
        position = connection.now();
        long limit = limit();
        long left = left();
        attemptEnd = limit < left ? timer.now() + limit : giveUp;
        options = options.withDeadlineAfter(Math.max(0, Math.min(left, limit)), TimeUnit.NANOSECONDS);
        try {
            attempt = Connection.ready(position).newCall(method, options);
            ClientCalls.asyncUnaryCall(attempt, request, new Observer());
            if (answer.isCancelled()) {
                // Cancelled meanwhile, on another thread, which did not see this attempt.
                cancel();
            }
        } catch (RuntimeException thrown) {
            // Thrown by an interceptor of the program. Rethrown, it would end only the timer's task, not the call.
            answer.completeExceptionally(thrown);
        }
    }

    private void failed(Throwable thrown) {
        PausewatchException error = failure(thrown);
        if (error instanceof UnavailableException && connection.moveOn(position.moves())) {
            unanswered++;
            if (unanswered % connection.addresses() != 0 && left() > 0 && !connection.isClosed()) {
                nobodyThere = error.getMessage();
                timer.in(0, this::attempt);
                return;
            }
        }
        Optional<Duration> wait =
                error instanceof LimitExceededException exceeded ? exceeded.callLessOften() : Optional.empty();
        boolean nobody = error instanceof UnavailableException || error instanceof StoreUnavailableException;
        long pause = pauses.next() + wait.map(Nanos::of).orElse(0L);
        // Waiting past the deadline would only hide the reason behind DEADLINE_EXCEEDED.
        if ((!nobody && wait.isEmpty()) || retries >= policy.retries() || pause >= left() || connection.isClosed()) {
            answer.completeExceptionally(error);
            return;
        }
        retries++;
        nobodyThere = error instanceof UnavailableException ? error.getMessage() : null;
        timer.in(pause, this::attempt);
    }

    private PausewatchException failure(Throwable thrown) {
        if (!ended(thrown, attemptEnd)) {
            return connection.failure(thrown);
        }
        return ended(thrown, giveUp)
                ? outOfTime(thrown)
                : connection.unavailable("no answer within " + Nanos.text(Duration.ofNanos(limit())), thrown);
    }

    /**
     * How long a replica may take to answer: at most half of the deadline, so that time is left for another replica.
     */
    private long limit() {
        return connection.several()
                ? Math.min(Connection.ANSWER_TIMEOUT_NANOS, Nanos.of(policy.deadline()) / 2)
                : Nanos.MAX;
    }

    private PausewatchException outOfTime(Throwable thrown) {
        PausewatchException error = Failure.deadline(policy.deadline(), thrown);
        // The attempt waited for a connection. UNAVAILABLE says more: there was no connection.
        return nobodyThere == null
                ? error
                : Failure.made(Status.UNAVAILABLE, nobodyThere + "; " + error.getMessage(), thrown);
    }

    /** The transport and the server end a call at the same moment; the server may name it CANCELLED. */
    private boolean ended(Throwable thrown, long deadline) {
        boolean isLast = deadline == giveUp && attemptEnd - giveUp >= 0;
        return switch (Status.fromThrowable(thrown).getCode()) {
            case DEADLINE_EXCEEDED -> isLast || deadline - timer.now() <= TICK_NANOS;
            case CANCELLED -> deadline - timer.now() <= TICK_NANOS;
            default -> false;
        };
    }

    private long left() {
        return giveUp - timer.now();
    }

    /** Takes the one answer of an attempt. */
    private final class Observer implements StreamObserver<R> {
        private @Nullable R response;

        @Override
        public void onNext(R response) {
            this.response = response;
        }

        @Override
        public void onError(Throwable thrown) {
            failed(thrown);
        }

        @Override
        public void onCompleted() {
            if (response == null) {
                failed(new StatusRuntimeException(Status.INTERNAL.withDescription("the answer was empty")));
            } else {
                answer.complete(read.apply(response));
            }
        }
    }
}
