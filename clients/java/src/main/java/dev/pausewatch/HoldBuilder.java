package dev.pausewatch;

import io.grpc.Status;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** What a {@link Hold} will say of itself. Made by {@link Client#hold}; nothing is open until {@link #open()}. */
public final class HoldBuilder {
    /** Long enough to outlast two lost renewals and a restart of the server, short enough that a crash is forgotten soon. */
    private static final Duration DEFAULT_TTL = Duration.ofSeconds(30);
    /** Well below the 256 bytes that are allowed. */
    private static final int LONGEST_NAME = 50;

    private final Core core;
    private final Calls.Patience patience;
    private final String threadId;
    private String reason = "";
    private String holder = thisProgram();
    private Duration ttl = DEFAULT_TTL;

    HoldBuilder(Core core, Calls.Patience patience, String threadId) {
        this.core = core;
        this.patience = patience;
        this.threadId = threadId;
    }

    /** What the person is asked, shown in lists and logs: up to 1,024 bytes. Default: nothing. */
    public HoldBuilder reason(String reason) {
        this.reason = reason;
        return this;
    }

    /** Who asks: up to 256 bytes. Default: this program's name and process id, {@code name[1234]}. */
    public HoldBuilder holder(String holder) {
        this.holder = holder;
        return this;
    }

    /** How long the elicitation outlives a holder that died: 1 s to 24 h. Default: 30 s. Renewed every third of it. */
    public HoldBuilder ttl(Duration ttl) {
        this.ttl = ttl;
        return this;
    }

    /**
     * Opens the elicitation and begins to renew it.
     *
     * <p>A thread that is interrupted while it waits does not get it; what may still be opened is closed again in the background. The cancellation
     * of a gRPC call that the thread works for ({@link io.grpc.Context}) ends neither this nor the release.
     *
     * @throws InvalidFieldException nothing is open
     * @throws TooManyElicitationsException nothing is open
     * @throws LimitExceededException nothing is open
     * @throws StoreUnavailableException it may be open; its lease bounds it
     * @throws UnavailableException it may be open; its lease bounds it
     * @throws DeadlineExceededException it may be open; its lease bounds it
     */
    public Hold open() {
        long sent = core.timer().now();
        IncrementElicitation call = IncrementElicitation.of(threadId)
                .withReason(reason)
                .withHolder(holder)
                .withTtl(ttl);
        CompletableFuture<IncrementResult> opened =
                Calls.detached(() -> core.calls().increment(call, patience));
        try {
            // Not the call itself: interrupted, it goes on, so that what it opens can be closed.
            return new Hold(core, patience, threadId, ttl, sent, Calls.await(opened.copy()));
        } catch (OtherException error) {
            if (error.status().getCode() == Status.Code.CANCELLED) {
                opened.thenAcceptAsync(
                        late -> new Hold(core, patience, threadId, ttl, sent, late).abandon(), core.timer());
            }
            throw error;
        }
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
