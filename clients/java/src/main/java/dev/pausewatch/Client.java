package dev.pausewatch;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Optional;

/**
 * A connection to a coordinator, made at the first call and made again when it is lost. Any number of threads may use it. It has one daemon
 * thread of its own, however much is held, watched or timed.
 *
 * <pre>{@code
 * try (Client client = Client.fromEnv();
 *         Hold hold = client.hold("thread-1").reason("May I delete the branch?").open()) {
 *     // ... ask the person; the commands of thread-1 are not charged meanwhile ...
 * }
 * }</pre>
 *
 * <p>Every call has a deadline ({@link Config#deadline()}, 5 s by default) and is repeated within it, with random pauses and the same request id,
 * while nobody answers, or there are too many calls in this second. It ends with the exceptions that it is documented to have, or with
 * {@link UnavailableException}, {@link DeadlineExceededException} (outcome unknown: call again with the same request id) or
 * {@link OtherException}. A thread that is interrupted while it waits gives the call up: {@link OtherException} with status CANCELLED, outcome
 * unknown.
 */
public final class Client implements AutoCloseable {
    private final Core core;
    private final Calls.Patience patience;
    private final Optional<String> threadId;

    private Client(Core core, Calls.Patience patience, Optional<String> threadId) {
        this.core = core;
        this.patience = patience;
        this.threadId = threadId;
    }

    /**
     * A client with the settings of the environment and the config file. Does not connect yet.
     *
     * @throws ConfigException a setting is wrong
     */
    public static Client fromEnv() {
        return open(Config.fromEnv().build());
    }

    /**
     * A client of the coordinator at this {@link Address}, with all other settings from the environment and the config file. Does not connect yet.
     *
     * @throws ConfigException a setting is wrong
     */
    public static Client open(String address) {
        return open(Config.fromEnv().address(address).build());
    }

    /**
     * A client with these settings. Does not connect yet.
     *
     * @throws ConfigException a TLS file cannot be read
     */
    public static Client open(Config config) {
        Calls.Patience patience = new Calls.Patience(config.deadline(), config.retries());
        return new Client(new Core(config), patience, config.threadId());
    }

    /** The same connection with another deadline. Closing either closes both. */
    public Client withDeadline(Duration deadline) {
        return new Client(core, patience.withDeadline(deadline), threadId);
    }

    /** How long a call may take, retries included. */
    public Duration deadline() {
        return patience.deadline();
    }

    /** The calls of this client as futures. */
    public AsyncClient async() {
        return new AsyncClient(core.calls(), patience);
    }

    /**
     * Opens one elicitation, and leaves it to you to renew and close it; {@link #hold(String)} does both.
     *
     * @throws InvalidFieldException nothing was changed
     * @throws RequestIdReusedException nothing was changed
     * @throws TooManyElicitationsException nothing was changed
     * @throws LimitExceededException nothing was changed
     * @throws StoreUnavailableException call again with the same request id
     */
    public IncrementResult incrementElicitation(IncrementElicitation call) {
        return Calls.await(core.calls().increment(call, patience));
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
        return Calls.await(core.calls().decrement(call, patience));
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
        return Calls.await(core.calls().renew(call, patience));
    }

    /**
     * Reads one thread, with its open elicitations. One that nobody ever named has count 0.
     *
     * @throws InvalidFieldException no thread can have this id
     * @throws LimitExceededException there are too many calls in this second, and retries did not help
     */
    public PauseState getPauseState(String threadId) {
        return Calls.await(core.calls().get(threadId, patience));
    }

    /**
     * Lists one page of threads.
     *
     * @throws InvalidFieldException the page size is negative, or the token is foreign
     * @throws LimitExceededException there are too many calls in this second, and retries did not help
     */
    public PauseStatePage listPauseStates(ListPauseStates call) {
        return Calls.await(core.calls().list(call, patience));
    }

    /**
     * Lists one page of ended pauses.
     *
     * @throws InvalidFieldException a field is out of its limits, or the token is foreign, also after a restart of the server
     * @throws LimitExceededException there are too many calls in this second, and retries did not help
     */
    public PausePage listPauses(ListPauses call) {
        return Calls.await(core.calls().listPauses(call, patience));
    }

    /** Prepares to open an elicitation on {@code threadId} that stays open until it is released or closed. */
    public HoldBuilder hold(String threadId) {
        return new HoldBuilder(core, patience, Optional.of(threadId));
    }

    /** As {@link #hold(String)}, on the thread that is configured: {@link Config#threadId()}. If none is, it cannot be opened. */
    public HoldBuilder hold() {
        return new HoldBuilder(core, patience, threadId);
    }

    /**
     * Prepares to watch these threads; more can be added to the {@link Watch}.
     *
     * @throws InvalidFieldException no thread can have one of these ids
     */
    public WatchBuilder watch(Collection<String> threadIds) {
        return new WatchBuilder(core, patience, false, threadIds);
    }

    /**
     * Prepares to watch these threads.
     *
     * @throws InvalidFieldException no thread can have one of these ids
     */
    public WatchBuilder watch(String... threadIds) {
        return watch(List.of(threadIds));
    }

    /** Prepares to watch every thread that this client may see. */
    public WatchBuilder watchAll() {
        return new WatchBuilder(core, patience, true, List.of());
    }

    /**
     * Starts a deadline of {@code limit} that stands still while {@code threadId} is paused.
     *
     * @throws InvalidFieldException no thread can have this id
     */
    public PausableDeadline deadline(String threadId, Duration limit) {
        return deadline(threadId, limit, DeadlineOptions.defaults());
    }

    /**
     * As {@link #deadline(String, Duration)}, with another disconnect grace than 30 s: how long, cut off from the coordinator, a paused thread
     * still counts as paused, and a deadline that ran out waits for the link. Deadlines of one client with the same grace share one stream.
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
        Follower follower = core.follower(options.disconnectGrace(), patience);
        return core.started(
                ended -> new PausableDeadline(core.timer(), follower, threadId, limit, options.maxWall(), ended));
    }

    /**
     * Closes the connection, and with it all watches of it; holds that are open are left to their leases, and are {@link Lease#OVERDUE}.
     * Deadlines run on, and from now on no thread pauses them: they expire at the end of their limits, and nobody is asked before. A call or a
     * new deadline afterwards is an {@link IllegalStateException}. Closing again is harmless. A process can end without it.
     */
    @Override
    public void close() {
        core.close();
    }
}
