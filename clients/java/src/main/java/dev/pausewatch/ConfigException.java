package dev.pausewatch;

/** A setting is wrong; the message says which, where it stands, and what to do. Secrets are never in it. */
public final class ConfigException extends IllegalArgumentException {
    private static final long serialVersionUID = 1;

    ConfigException(String message) {
        super(message);
    }

    ConfigException(String message, Throwable cause) {
        super(message, cause);
    }
}
