package dev.pausewatch;

/** What a release of a {@link Hold} found. */
public sealed interface Ending {
    /**
     * The elicitation was open until this release closed it.
     *
     * @param count open elicitations that the thread has left
     * @param revision the revision of the thread that the release made
     */
    record Closed(int count, long revision) implements Ending {}

    /**
     * It had expired before: what was asked of the person was answered late, and commands of the thread may have been timed out meanwhile.
     *
     * @param error as the server said it
     */
    record Expired(ElicitationExpiredException error) implements Ending {}

    /** Somebody else's decrement had closed it before. */
    record Released() implements Ending {}

    /** The server does not know it: it lost its state, or has long forgotten it. */
    record Unknown() implements Ending {}

    /** There was nothing to release: a best-effort hold that could not be opened. */
    record NotOpen() implements Ending {}
}
