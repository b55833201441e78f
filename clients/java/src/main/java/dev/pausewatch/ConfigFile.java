package dev.pausewatch;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.function.UnaryOperator;
import org.tomlj.Toml;
import org.tomlj.TomlParseError;
import org.tomlj.TomlParseResult;
import org.tomlj.TomlPosition;

/**
 * The config file: the settings that all programs share.
 *
 * <p>1. A file that was named must exist; the default one may be missing, or in the home of another user.
 *
 * <p>2. An unknown key is an error, which has its name and line: a typing mistake must not silently select the default.
 *
 * <p>3. An empty value counts as not set, as in the environment.
 *
 * <p>4. No value except an address is quoted in an error: one of the values is a token.
 */
final class ConfigFile {
    private static final System.Logger LOG = System.getLogger("dev.pausewatch");
    private static final String VARIABLE = "PAUSEWATCH_CONFIG";
    /** The server's section of the file, which clients ignore. */
    private static final String SERVER = "serve";

    private ConfigFile() {}

    /** Reads the file that the environment names, else the default one. */
    static Map<Setting, String> load(UnaryOperator<String> environment) {
        return load(environment, Files::readString);
    }

    /** Reads the text of a file. */
    interface Reader {
        String read(Path path) throws IOException;
    }

    static Map<Setting, String> load(UnaryOperator<String> environment, Reader reader) {
        Optional<Path> named = path(environment, VARIABLE);
        Optional<Path> path = named.or(() -> usualPlace(environment));
        if (path.isEmpty()) {
            return Map.of();
        }
        try {
            return parse(reader.read(path.get()));
        } catch (NoSuchFileException missing) {
            if (named.isEmpty()) {
                return Map.of();
            }
            throw new ConfigException("config file " + path.get() + ": not found", missing);
        } catch (IOException unreadable) {
            // A HOME of /dev/null is no directory, for which Java has no exception of its own.
            boolean isForbidden = unreadable instanceof AccessDeniedException;
            if (named.isEmpty() && !isForbidden && !Files.isDirectory(path.get().getParent())) {
                return Map.of();
            }
            if (named.isEmpty()
                    && isForbidden
                    && Owner.isAnotherUser(path.get().getParent().getParent())) {
                LOG.log(
                        System.Logger.Level.WARNING,
                        "config file {0} is ignored: it may not be read, and its directory belongs to another user;"
                                + " correct HOME or XDG_CONFIG_HOME",
                        path.get());
                return Map.of();
            }
            throw new ConfigException("config file " + path.get() + ": " + unreadable, unreadable);
        } catch (ConfigException wrong) {
            throw new ConfigException("config file " + path.get() + ": " + wrong.getMessage(), wrong);
        }
    }

    static Map<Setting, String> parse(String text) {
        TomlParseResult file = Toml.parse(text);
        if (file.hasErrors()) {
            TomlParseError first = file.errors().get(0);
            throw at(first.position(), "this is not TOML");
        }
        Map<Setting, String> settings = new EnumMap<>(Setting.class);
        for (String key : file.keySet()) {
            if (key.equals(SERVER)) {
                continue;
            }
            TomlPosition position = Objects.requireNonNull(file.inputPositionOf(List.of(key)));
            Setting setting = setting(key)
                    .orElseThrow(() -> at(position, "unknown field `" + key + "`, expected one of " + Setting.KEYS));
            if (!(file.get(List.of(key)) instanceof String value)) {
                throw at(position, "`" + key + "`: invalid type, expected a string");
            }
            if (value.isEmpty()) {
                continue;
            }
            if (setting == Setting.ADDRESS) {
                checkAddress(position, value);
            }
            settings.put(setting, value);
        }
        return settings;
    }

    private static Optional<Setting> setting(String key) {
        for (Setting setting : Setting.values()) {
            if (setting.key().equals(key)) {
                return Optional.of(setting);
            }
        }
        return Optional.empty();
    }

    private static void checkAddress(TomlPosition position, String address) {
        try {
            Address.parse(address);
        } catch (ConfigException wrong) {
            throw at(position, wrong.getMessage());
        }
    }

    private static ConfigException at(TomlPosition position, String problem) {
        return new ConfigException("line " + position.line() + ": " + problem);
    }

    private static Optional<Path> usualPlace(UnaryOperator<String> environment) {
        // The XDG base directory specification: a relative path is to be ignored.
        try {
            return path(environment, "XDG_CONFIG_HOME")
                    .filter(Path::isAbsolute)
                    .or(() -> path(environment, "HOME").map(home -> home.resolve(".config")))
                    .map(config -> config.resolve("pausewatch").resolve("config.toml"));
        } catch (ConfigException invalid) {
            // A program must run without a config file, whatever its home is called.
            LOG.log(System.Logger.Level.WARNING, "the config file is not read: {0}", invalid.getMessage());
            return Optional.empty();
        }
    }

    private static Optional<Path> path(UnaryOperator<String> environment, String variable) {
        return Optional.ofNullable(environment.apply(variable))
                .filter(value -> !value.isEmpty())
                .map(value -> path(variable, value));
    }

    /**
     * The path that a setting names.
     *
     * @throws ConfigException it has a character that Java cannot use in a path, for example one beyond ASCII without a locale
     */
    static Path path(String setting, String value) {
        try {
            return Path.of(value);
        } catch (InvalidPathException invalid) {
            throw new ConfigException(setting + ": not a path: " + invalid.getReason(), invalid);
        }
    }
}
