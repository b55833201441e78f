package dev.pausewatch;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/** What can be set by a variable of the environment or a key of the config file, for programs and libraries in every language alike. */
enum Setting {
    ADDRESS,
    THREAD_ID,
    TOKEN,
    TLS_CA,
    TLS_CERT,
    TLS_KEY;

    /** All keys of the config file, as a person lists them. */
    static final String KEYS =
            Arrays.stream(values()).map(setting -> "`" + setting.key() + "`").collect(Collectors.joining(", "));

    /** In the config file. */
    String key() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** In the environment. */
    String variable() {
        return "PAUSEWATCH_" + name();
    }

    /** Where the environment may have it, the first that is set and not empty; an agent sets its own for its commands. */
    List<String> variables() {
        return this == THREAD_ID
                ? List.of(variable(), "CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID")
                : List.of(variable());
    }
}
