package dev.pausewatch;

import dev.pausewatch.v1.ElicitationServiceGrpc;
import dev.pausewatch.v1.GetPauseStateRequest;
import io.grpc.Context;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * The unary RPCs as futures, in this library's own types. The futures complete on a thread of the transport, where no
 * user code may run.
 */
final class Calls {
    private final Connection connection;
    private final Timer timer;

    Calls(Connection connection, Timer timer) {
        this.connection = connection;
        this.timer = timer;
    }

    /**
     * The limits of a call.
     *
     * @param deadline covers everything: connecting, every attempt and every retry delay
     * @param retries the maximum number of retries: while the coordinator is unavailable, or the limit of calls per
     *     second is exceeded
     */
    record RetryPolicy(Duration deadline, int retries) {
        RetryPolicy withDeadline(Duration deadline) {
            return new RetryPolicy(deadline, retries);
        }

        RetryPolicy atMost(Duration most) {
            return deadline.compareTo(most) <= 0 ? this : withDeadline(most);
        }
    }

    CompletableFuture<IncrementResult> increment(IncrementElicitation call, RetryPolicy policy) {
        return start(
                ElicitationServiceGrpc.getIncrementElicitationMethod(), Wire.increment(call), Wire::increment, policy);
    }

    CompletableFuture<DecrementResult> decrement(DecrementElicitation call, RetryPolicy policy) {
        return start(
                ElicitationServiceGrpc.getDecrementElicitationMethod(), Wire.decrement(call), Wire::decrement, policy);
    }

    CompletableFuture<Elicitation> renew(RenewElicitation call, RetryPolicy policy) {
        return start(
                ElicitationServiceGrpc.getRenewElicitationMethod(),
                Wire.renew(call),
                response -> Wire.elicitation(response.getElicitation()),
                policy);
    }

    CompletableFuture<PauseState> get(String threadId, RetryPolicy policy) {
        return start(
                ElicitationServiceGrpc.getGetPauseStateMethod(),
                GetPauseStateRequest.newBuilder().setThreadId(threadId).build(),
                response -> Wire.state(response.getPauseState()),
                policy);
    }

    CompletableFuture<PauseStatePage> list(ListPauseStates call, RetryPolicy policy) {
        return start(ElicitationServiceGrpc.getListPauseStatesMethod(), Wire.list(call), Wire::list, policy);
    }

    CompletableFuture<PausePage> listPauses(ListPauses call, RetryPolicy policy) {
        return start(ElicitationServiceGrpc.getListPausesMethod(), Wire.listPauses(call), Wire::pauses, policy);
    }

    private <Q, R, T> CompletableFuture<T> start(
            MethodDescriptor<Q, R> method, Q request, Function<R, T> read, RetryPolicy policy) {
        return new UnaryCall<>(connection, timer, method, request, read, policy).start();
    }

    /**
     * Makes a call that is independent of the gRPC call that this thread serves ({@link Context}): it continues if that
     * gRPC call is cancelled or its deadline passes. Blocks often end at that moment, and an open elicitation must
     * still be closed.
     */
    static <T> T detached(Supplier<T> call) {
        Context context = Context.current().fork();
        Context before = context.attach();
        try {
            return call.get();
        } finally {
            context.detach(before);
        }
    }

    /**
     * Waits for an answer; cancels the call if this thread is interrupted meanwhile.
     *
     * @throws PausewatchException the error of the call; {@link OtherException} with status CANCELLED if this thread
     *     was interrupted, whose interrupt flag is then still set
     */
    static <R> R await(CompletableFuture<R> answer) {
        try {
            // Even if the answer has already arrived: the effect of an interrupt must not depend on a race.
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            return answer.get();
        } catch (ExecutionException failed) {
            throw rethrown(failed.getCause());
        } catch (InterruptedException interrupted) {
            answer.cancel(false);
            Thread.currentThread().interrupt();
            throw Failure.made(Status.CANCELLED, "interrupted while waiting for the answer", interrupted);
        }
    }

    private static RuntimeException rethrown(Throwable cause) {
        if (cause instanceof PausewatchException known) {
            return known;
        }
        return cause instanceof RuntimeException unexpected ? unexpected : new IllegalStateException(cause);
    }
}
