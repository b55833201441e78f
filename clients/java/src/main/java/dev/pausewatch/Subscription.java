package dev.pausewatch;

/** Events go to a listener until this is closed. */
@FunctionalInterface
public interface Subscription extends AutoCloseable {
    /** Ends it; an event that is being told may still be. Calling it again is harmless. */
    @Override
    void close();
}
