package dev.pausewatch;

/** How a pause, or an elicitation, ended. */
public enum PauseEnd {
    /** In a way that this library does not know. */
    UNKNOWN,
    /** By a decrement. */
    DECREMENTED,
    /** By a decrement with an admin's token. */
    RELEASED,
    /** By the end of its lease, which was not renewed in time. */
    EXPIRED,
    /** By the server's {@code --max-pause}. */
    MAX_PAUSE
}
