package dev.pausewatch;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/**
 * The settings that have an environment variable and a key of the config file, the same for all programs and libraries.
 */
enum Setting {
    ADDRESS,
    THREAD_ID,
    TOKEN,
    TLS_CA,
    TLS_CERT,
    TLS_KEY;

    /** All keys of the config file, for an error message. */
    static final String KEYS =
            Arrays.stream(values()).map(setting -> "`" + setting.key() + "`").collect(Collectors.joining(", "));

    /** Its key in the config file. */
    String key() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** Its environment variable. */
    String variable() {
        return "PAUSEWATCH_" + name();
    }

    /** Its environment variables; the first that is not empty is used. Agents set their own for their commands. */
    List<String> variables() {
        return this == THREAD_ID
                ? List.of(variable(), "CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID")
                : List.of(variable());
    }
}
