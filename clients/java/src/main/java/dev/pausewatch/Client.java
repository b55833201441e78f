package dev.pausewatch;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Optional;

/**
 * A connection to a coordinator. It connects at the first call, and reconnects when the connection is lost. It is safe for
 * concurrent use. It has one daemon thread of its own, however many holds, watches and deadlines there are.
 *
 * <pre>{@code
 * try (Client client = Client.fromEnv();
 *         Hold hold = client.hold("thread-1").reason("May I delete the branch?").open()) {
 *     // ... ask the person; no time is charged to the commands of thread-1 meanwhile ...
 * }
 * }</pre>
 *
 * <p>Every call has a deadline ({@link Config#deadline()}, 5 s by default). Within it the call is retried, with random delays and
 * the same request id, while no coordinator answers, or the limit of calls per second is exceeded. It ends with the exceptions
 * that it documents, or with {@link UnavailableException}, {@link DeadlineExceededException} (outcome unknown: call again with
 * the same request id) or {@link OtherException}. An interrupt of the waiting thread ends the call: {@link OtherException} with
 * status CANCELLED, outcome unknown.
 */
public final class Client implements AutoCloseable {
    private final Core core;
    private final Calls.RetryPolicy policy;
    private final Optional<String> threadId;

    private Client(Core core, Calls.RetryPolicy policy, Optional<String> threadId) {
        this.core = core;
        this.policy = policy;
        this.threadId = threadId;
    }

    /**
     * Creates a client with the settings of the environment and the config file. Does not connect yet.
     *
     * @throws ConfigException a setting is invalid
     */
    public static Client fromEnv() {
        return open(Config.fromEnv().build());
    }

    /**
     * Creates a client of the coordinator at this {@link Address}, with all other settings from the environment and the config
     * file. Does not connect yet.
     *
     * @throws ConfigException a setting is invalid
     */
    public static Client open(String address) {
        return open(Config.fromEnv().address(address).build());
    }

    /**
     * Creates a client with these settings. Does not connect yet.
     *
     * @throws ConfigException a TLS file cannot be read
     */
    public static Client open(Config config) {
        Calls.RetryPolicy policy = new Calls.RetryPolicy(config.deadline(), config.retries());
        return new Client(new Core(config), policy, config.threadId());
    }

    /** Returns a client on the same connection with another deadline. Closing either closes both. */
    public Client withDeadline(Duration deadline) {
        return new Client(core, policy.withDeadline(deadline), threadId);
    }

    /** The deadline of a call, retries included. */
    public Duration deadline() {
        return policy.deadline();
    }

    /** The calls of this client as futures. */
    public AsyncClient async() {
        return new AsyncClient(core.calls(), policy);
    }

    /**
     * Opens one elicitation. The caller must renew and close it; {@link #hold(String)} does both.
     *
     * @throws InvalidFieldException nothing was changed
     * @throws RequestIdReusedException nothing was changed
     * @throws TooManyElicitationsException nothing was changed
     * @throws LimitExceededException nothing was changed
     * @throws StoreUnavailableException call again with the same request id
     */
    public IncrementResult incrementElicitation(IncrementElicitation call) {
        return Calls.await(core.calls().increment(call, policy));
    }

    /**
     * Closes one elicitation.
     *
     * @throws InvalidFieldException nothing was changed
     * @throws RequestIdReusedException nothing was changed
     * @throws NoOutstandingElicitationException nothing was changed
     * @throws ElicitationUnknownException nothing was changed
     * @throws ElicitationReleasedException nothing was changed
     * @throws ElicitationExpiredException nothing was changed
     * @throws LimitExceededException nothing was changed
     * @throws StoreUnavailableException call again with the same request id
     */
    public DecrementResult decrementElicitation(DecrementElicitation call) {
        return Calls.await(core.calls().decrement(call, policy));
    }

    /**
     * Extends one lease.
     *
     * @return the elicitation with its new expire time
     * @throws InvalidFieldException nothing was changed
     * @throws ElicitationUnknownException nothing was changed
     * @throws ElicitationReleasedException nothing was changed
     * @throws ElicitationExpiredException nothing was changed
     * @throws LimitExceededException nothing was changed
     */
    public Elicitation renewElicitation(RenewElicitation call) {
        return Calls.await(core.calls().renew(call, policy));
    }

    /**
     * Reads the state of one thread, with its open elicitations. A thread that was never used has count 0.
     *
     * @throws InvalidFieldException no thread can have this id
     * @throws LimitExceededException the limit of calls per second is exceeded, and retries did not help
     */
    public PauseState getPauseState(String threadId) {
        return Calls.await(core.calls().get(threadId, policy));
    }

    /**
     * Lists one page of threads.
     *
     * @throws InvalidFieldException the page size is negative, or the page token is invalid
     * @throws LimitExceededException the limit of calls per second is exceeded, and retries did not help
     */
    public PauseStatePage listPauseStates(ListPauseStates call) {
        return Calls.await(core.calls().list(call, policy));
    }

    /**
     * Lists one page of ended pauses.
     *
     * @throws InvalidFieldException a field is out of its limits, or the page token is invalid, for example from before a restart
     *     of the server
     * @throws LimitExceededException the limit of calls per second is exceeded, and retries did not help
     */
    public PausePage listPauses(ListPauses call) {
        return Calls.await(core.calls().listPauses(call, policy));
    }

    /** Prepares a hold on {@code threadId}: an elicitation that stays open until it is released or closed. */
    public HoldBuilder hold(String threadId) {
        return new HoldBuilder(core, policy, Optional.of(threadId));
    }

    /**
     * As {@link #hold(String)}, on the configured thread: {@link Config#threadId()}. If none is configured, the hold cannot be
     * opened.
     */
    public HoldBuilder hold() {
        return new HoldBuilder(core, policy, threadId);
    }

    /**
     * Prepares to watch these threads; more can be added to the {@link Watch}.
     *
     * @throws InvalidFieldException no thread can have one of these ids
     */
    public WatchBuilder watch(Collection<String> threadIds) {
        return new WatchBuilder(core, policy, false, threadIds);
    }

    /**
     * Prepares to watch these threads.
     *
     * @throws InvalidFieldException no thread can have one of these ids
     */
    public WatchBuilder watch(String... threadIds) {
        return watch(List.of(threadIds));
    }

    /** Prepares to watch every thread that this client may read. */
    public WatchBuilder watchAll() {
        return new WatchBuilder(core, policy, true, List.of());
    }

    /**
     * Starts a deadline of {@code limit} that is paused while {@code threadId} is paused.
     *
     * @throws InvalidFieldException no thread can have this id
     */
    public PausableDeadline deadline(String threadId, Duration limit) {
        return deadline(threadId, limit, DeadlineOptions.defaults());
    }

    /**
     * As {@link #deadline(String, Duration)}, with another disconnect grace than 30 s: while the coordinator is unreachable, how
     * long a paused thread still counts as paused, and how long a deadline that ran out waits for a reconnect. Deadlines of one
     * client with the same grace share one stream.
     *
     * @throws InvalidFieldException no thread can have this id
     */
    public PausableDeadline deadline(String threadId, Duration limit, Duration disconnectGrace) {
        return deadline(threadId, limit, DeadlineOptions.defaults().withDisconnectGrace(disconnectGrace));
    }

    /**
     * As {@link #deadline(String, Duration)}, with a limit on wall time or another disconnect grace.
     *
     * @throws InvalidFieldException no thread can have this id
     */
    public PausableDeadline deadline(String threadId, Duration limit, DeadlineOptions options) {
        ThreadIds.checked(threadId);
        return core.started(
                options.disconnectGrace(),
                policy,
                (follower, ended) ->
                        new PausableDeadline(core.timer(), follower, threadId, limit, options.maxWall(), ended));
    }

    /**
     * Closes the connection and all its watches. It first waits for holds that are being closed or opened, for one
     * deadline at most, even if this thread is interrupted: an elicitation that is still opened is closed again, and
     * {@code open()} throws {@link IllegalStateException}. Holds that are still open are not renewed any more: their
     * leases end them, and they are {@link Lease#OVERDUE}. Deadlines keep running, but no thread pauses them from now
     * on: they expire at their limits, without a confirmation. A call or a new deadline afterwards throws {@link
     * IllegalStateException}. Calling it again is harmless. A process may end without calling it.
     */
    @Override
    public void close() {
        core.close();
    }
}
