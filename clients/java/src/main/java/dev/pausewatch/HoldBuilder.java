package dev.pausewatch;

import java.lang.System.Logger.Level;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** The options of a {@link Hold}. Created by {@link Client#hold}; nothing is open until {@link #open()}. */
public final class HoldBuilder {
    private static final System.Logger LOGGER = System.getLogger("dev.pausewatch");
    /**
     * Long enough to survive two lost renewals and a restart of the server; short enough that a crashed holder's elicitation ends
     * soon.
     */
    private static final Duration DEFAULT_TTL = Duration.ofSeconds(30);
    /** Well below the limit of 256 bytes. */
    private static final int LONGEST_NAME = 50;

    private final Core core;
    private final Calls.RetryPolicy policy;
    private final Optional<String> threadId;
    private String reason = "";
    private String holder = thisProgram();
    private Duration ttl = DEFAULT_TTL;
    private boolean bestEffort;

    HoldBuilder(Core core, Calls.RetryPolicy policy, Optional<String> threadId) {
        this.core = core;
        this.policy = policy;
        this.threadId = threadId;
    }

    /** The question to the person, shown in lists and logs: up to 1,024 bytes. Default: empty. */
    public HoldBuilder reason(String reason) {
        this.reason = reason;
        return this;
    }

    /** The name of the program that asks: up to 256 bytes. Default: this program's name and process id, {@code name[1234]}. */
    public HoldBuilder holder(String holder) {
        this.holder = holder;
        return this;
    }

    /** How long the elicitation stays open after its holder died: 1 s to 24 h. Default: 30 s. It is renewed every ttl/3. */
    public HoldBuilder ttl(Duration ttl) {
        this.ttl = ttl;
        return this;
    }

    /**
     * If the thread cannot be paused (no thread is set, no coordinator runs, …), a warning is logged and the program continues
     * without a pause, as {@code pausewatch hold} does without {@code --require}: see {@link Hold#failure()}. A field out of its
     * limits, an interrupt and a closed client are still exceptions.
     */
    public HoldBuilder bestEffort() {
        this.bestEffort = true;
        return this;
    }

    /**
     * Opens the elicitation and renews it in the background.
     *
     * <p>If the waiting thread is interrupted, an elicitation that is opened nevertheless is closed in the background. The
     * cancellation of a gRPC call that the thread works for ({@link io.grpc.Context}) ends neither this nor the release.
     *
     * @throws ConfigException no thread is set, neither here nor in the configuration
     * @throws InvalidFieldException nothing is open
     * @throws TooManyElicitationsException nothing is open
     * @throws LimitExceededException nothing is open
     * @throws StoreUnavailableException it may be open; its lease bounds it
     * @throws UnavailableException it may be open; its lease bounds it
     * @throws DeadlineExceededException it may be open; its lease bounds it
     */
    public Hold open() {
        return Calls.await(openAsync());
    }

    /**
     * As {@link #open()}, without waiting. The future completes on a thread of this library, where code may block; it fails with
     * the exceptions of {@link #open()}. If it is cancelled, an elicitation that is opened nevertheless is closed in the
     * background.
     */
    public CompletableFuture<Hold> openAsync() {
        CompletableFuture<Hold> hold = new CompletableFuture<>();
        if (threadId.isEmpty()) {
            return hold.completeAsync(() -> without(noThread()), Callbacks.EXECUTOR);
        }
        long sent = core.timer().now();
        core.finishing(() -> increment(threadId.get())
                        .<Runnable>handleAsync(
                                (opened, thrown) -> {
                                    try {
                                        Hold made = opened == null
                                                ? without((RuntimeException) thrown)
                                                : held(threadId.get(), sent, opened);
                                        if (hold.isDone()) {
                                            made.abandon();
                                            return () -> {};
                                        }
                                        return () -> {
                                            if (!hold.complete(made)) {
                                                made.abandon();
                                            }
                                        };
                                    } catch (RuntimeException failed) {
                                        return () -> hold.completeExceptionally(failed);
                                    }
                                },
                                Callbacks.EXECUTOR))
                // After the opening has ended: code that the program attached to the future runs here. It may close the
                // client, which waits for every opening.
                .thenAccept(Runnable::run);
        return hold;
    }

    private CompletableFuture<IncrementResult> increment(String threadId) {
        IncrementElicitation call = IncrementElicitation.of(threadId)
                .withReason(reason)
                .withHolder(holder)
                .withTtl(ttl);
        return core.isClosing()
                ? CompletableFuture.failedFuture(Core.closed())
                : Calls.detached(() -> core.calls().increment(call, policy));
    }

    private Hold held(String threadId, long sent, IncrementResult opened) {
        Hold hold = new Hold(core, policy, threadId, ttl, sent, opened);
        if (core.isClosing()) {
            hold.abandon();
            throw Core.closed();
        }
        return hold;
    }

    /** The result if the hold could not be opened: with best effort a hold with this failure; otherwise throws it. */
    private Hold without(RuntimeException why) {
        boolean isCallers = why instanceof InvalidFieldException
                || !(why instanceof PausewatchException || why instanceof ConfigException);
        if (!bestEffort || isCallers || core.isClosing()) {
            throw why;
        }
        LOGGER.log(Level.WARNING, "the thread is not paused, going on without a hold: {0}", why.getMessage());
        return new Hold(core, policy, ttl, why);
    }

    private static ConfigException noThread() {
        return new ConfigException("no thread id; set " + Setting.THREAD_ID.variable());
    }

    /** The main class or jar, and the process. */
    private static String thisProgram() {
        String command = System.getProperty("sun.java.command", "java").split(" ", 2)[0];
        String name = command.endsWith(".jar")
                ? Path.of(command).getFileName().toString()
                : command.substring(command.lastIndexOf('.') + 1);
        String printable = name.codePoints()
                .filter(character -> !Character.isISOControl(character))
                .limit(LONGEST_NAME)
                .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
                .toString();
        return printable + "[" + ProcessHandle.current().pid() + "]";
    }
}
