package dev.pausewatch;

/** A field is out of its limits. Nothing was changed; the same call will always be refused. */
public final class InvalidFieldException extends PausewatchException {
    private static final long serialVersionUID = 1;

    private final String field;
    private final String description;

    InvalidFieldException(Failure failure, String field, String description) {
        super(failure);
        this.field = field;
        this.description = description;
    }

    /** The field, as the proto names it: {@code thread_id}, {@code ttl}, … */
    public String field() {
        return field;
    }

    /** What it was and what is allowed. */
    public String description() {
        return description;
    }
}
