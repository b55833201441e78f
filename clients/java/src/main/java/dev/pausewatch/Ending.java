package dev.pausewatch;

/** The result of a release of a {@link Hold}: how the elicitation ended. */
public sealed interface Ending {
    /**
     * The elicitation was open until this release closed it.
     *
     * @param count the number of elicitations that are still open on the thread
     * @param revision the revision of the thread that the release made
     */
    record Closed(int count, long revision) implements Ending {}

    /**
     * Its lease had already ended: the answer came too late, and commands of the thread may have timed out.
     *
     * @param error the error that the server returned
     */
    record Expired(ElicitationExpiredException error) implements Ending {}

    /** A decrement of another caller had already closed it. */
    record Released() implements Ending {}

    /** The server does not know the elicitation: it lost its state, or forgot the elicitation after some time. */
    record Unknown() implements Ending {}

    /** There was nothing to release: a best-effort hold that could not be opened. */
    record NotOpen() implements Ending {}
}
