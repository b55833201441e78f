package dev.pausewatch;

/** Delivers events to a listener until it is closed. */
@FunctionalInterface
public interface Subscription extends AutoCloseable {
    /** Ends the delivery; an event that is being delivered may still complete. Calling it again is harmless. */
    @Override
    void close();
}
