package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ConfigTest {
    private static final String SECRET = "s3cret-token";

    @TempDir
    Path directory;

    private final Map<String, String> environment = new HashMap<>();

    private Config.Builder config() {
        return Config.fromEnv(environment::get);
    }

    private void file(String text) throws IOException {
        Path file = directory.resolve("config.toml");
        Files.writeString(file, text);
        environment.put("PAUSEWATCH_CONFIG", file.toString());
    }

    private static String error(Config.Builder builder) {
        return assertThrows(ConfigException.class, builder::build).getMessage();
    }

    @Test
    void aPathThatJavaCannotUseIsAnError() {
        // As a path beyond ASCII, if there is no locale.
        String unusable = "/home/\0";
        for (String setting : List.of("PAUSEWATCH_CONFIG", "PAUSEWATCH_TOKEN_FILE")) {
            environment.put(setting, unusable);
            assertTrue(error(config()).startsWith(setting + ": not a path: "), error(config()));
            environment.clear();
        }
        environment.put("PAUSEWATCH_ADDRESS", "https://localhost:1");
        environment.put("PAUSEWATCH_TLS_CA", unusable);
        assertTrue(error(config()).startsWith("tls_ca: not a path: "), error(config()));
    }

    @Test
    void aHomeThatJavaCannotUseHasNoConfigFile() {
        for (String variable : List.of("HOME", "XDG_CONFIG_HOME")) {
            environment.put(variable, "/home/\0");
            assertEquals("127.0.0.1:7420", config().build().address().toString());
        }
    }

    /** As after {@code su} without {@code -}: HOME is that of root. */
    @Test
    void aConfigFileInTheHomeOfAnotherUserIsIgnored() throws IOException {
        ConfigFile.Reader forbidden = path -> {
            throw new AccessDeniedException(path.toString());
        };
        environment.put("HOME", directory.toString());
        ConfigException own = assertThrows(ConfigException.class, () -> ConfigFile.load(environment::get, forbidden));
        assertTrue(own.getMessage().contains("AccessDenied"), own.getMessage());
        Path theirs = Path.of("/");
        if (!Owner.isAnotherUser(theirs)) {
            // The tests run as root, which owns all directories.
            theirs = Files.createDirectory(directory.resolve("theirs"));
            Files.setAttribute(theirs, "unix:uid", 65534);
        }
        environment.put("HOME", theirs.toString());
        assertEquals(Map.of(), ConfigFile.load(environment::get, forbidden));
        environment.put("PAUSEWATCH_CONFIG", theirs.resolve("named.toml").toString());
        assertThrows(ConfigException.class, () -> ConfigFile.load(environment::get, forbidden));
    }

    @Test
    void aCallNeedsTime() {
        assertEquals("deadline PT0S: must be above 0", error(Config.builder().deadline(Duration.ZERO)));
        assertEquals("deadline PT-1S: must be above 0", error(Config.builder().deadline(Duration.ofSeconds(-1))));
        assertEquals("retries -1: must be 0 or more", error(Config.builder().retries(-1)));
    }

    @Test
    void theSharedVectors() throws IOException {
        for (JsonObject each : Vectors.cases("settings.json")) {
            Vectors.known(each, "name", "files", "config_file", "options", "environment", "expect", "error");
            String name = each.get("name").getAsString();
            Path own = Files.createTempDirectory(directory, "case");
            for (Map.Entry<String, String> file : strings(each, "files").entrySet()) {
                Path path = own.resolve(file.getKey());
                Files.createDirectories(path.getParent());
                Files.writeString(path, file.getValue());
            }
            Map<String, String> variables = strings(each, "environment");
            variables.replaceAll((variable, value) -> value.replace("$DIR", own.toString()));
            if (each.has("config_file")) {
                // A program names its file by this variable: this library has no option for it.
                variables.put(
                        "PAUSEWATCH_CONFIG",
                        own.resolve(each.get("config_file").getAsString()).toString());
            }
            Config.Builder builder = Config.fromEnv(variables::get);
            strings(each, "options").forEach((option, value) -> choose(builder, option, value));
            if (each.has("error")) {
                String error = error(builder).toLowerCase(Locale.ROOT);
                each.getAsJsonArray("error")
                        .forEach(part -> assertTrue(
                                error.contains(part.getAsString().toLowerCase(Locale.ROOT)), name + ": " + error));
                assertFalse(error.contains("s3cret"), name);
            } else {
                expect(builder.build(), each.getAsJsonObject("expect"), name);
            }
        }
    }

    private static Map<String, String> strings(JsonObject of, String key) {
        Map<String, String> strings = new HashMap<>();
        if (of.has(key)) {
            of.getAsJsonObject(key).asMap().forEach((name, value) -> strings.put(name, value.getAsString()));
        }
        return strings;
    }

    private static void choose(Config.Builder builder, String option, String value) {
        switch (option) {
            case "address" -> builder.address(value);
            case "thread_id" -> builder.threadId(value);
            case "token" -> builder.token(value);
            default -> throw new AssertionError("unknown: " + option);
        }
    }

    private static void expect(Config config, JsonObject expected, String name) {
        expected.asMap().forEach((key, value) -> {
            Optional<?> found = switch (key) {
                case "address" -> Optional.of(config.address());
                case "thread_id" -> config.threadId();
                case "token" -> config.token();
                case "tls_ca" -> config.tlsCa();
                default -> throw new AssertionError("unknown: " + key);
            };
            Optional<String> wanted = value.isJsonNull() ? Optional.empty() : Optional.of(value.getAsString());
            assertEquals(wanted, found.map(Object::toString), name + ": " + key);
        });
    }

    @Test
    void withoutAnEnvironmentOnlyArgumentsCount() {
        assertEquals("127.0.0.1:7420", Config.builder().build().address().toString());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "thread_id = \"t\";adress = \"h:1\" | line 2: unknown field `adress`, expected one of `address`, `thread_id`, `token`",
                ";;address = \"host\" | line 3: address \"host\": the port is missing",
                "thread_id = 7 | line 1: `thread_id`: invalid type, expected a string",
                "thread_id = \"t\";= 7 | line 2: this is not TOML",
            })
    void whatIsWrongInAFileIsNamedWithItsLine(String text, String why) throws IOException {
        file(text.replace(';', '\n'));
        assertTrue(error(config()).contains("config.toml: " + why), error(config()));
    }

    @Test
    void tlsFilesNeedAnHttpsAddressAndSayWhatToDo() {
        Config.Builder plain = config().address("example.com:7420").tlsCa(Path.of("ca.pem"));
        assertTrue(error(plain).contains("tls_ca is set"), error(plain));
        assertTrue(error(plain).contains("write https://example.com:7420"), error(plain));
        environment.put("PAUSEWATCH_TLS_CERT", "cert.pem");
        environment.put("PAUSEWATCH_TLS_KEY", "key.pem");
        environment.put("PAUSEWATCH_ADDRESS", "unix:/run/p.sock");
        assertTrue(error(config()).contains("tls_cert is set"));
        assertEquals(
                "https://example.com:443",
                config().address("https://example.com").build().address().toString());
    }

    @Test
    void aCertificateNeedsItsKeyAndAKeyItsCertificate() {
        environment.put("PAUSEWATCH_ADDRESS", "https://example.com");
        environment.put("PAUSEWATCH_TLS_CERT", "cert.pem");
        assertTrue(error(config()).contains("set PAUSEWATCH_TLS_KEY too"), error(config()));
        environment.remove("PAUSEWATCH_TLS_CERT");
        environment.put("PAUSEWATCH_TLS_KEY", "key.pem");
        assertTrue(error(config()).contains("set PAUSEWATCH_TLS_CERT too"), error(config()));
    }

    @ParameterizedTest
    @CsvSource({"example.com:7420", "10.0.0.1:7420", "0.0.0.0:7420"})
    void aTokenIsNotSentInPlainTextToOtherMachines(String address) {
        String error = error(config().address(address).token(SECRET));
        assertTrue(error.contains("write https://" + address), error);
        assertFalse(error.contains(SECRET), error);
    }

    @ParameterizedTest
    @CsvSource({"127.0.0.1:7420", "localhost:7420", "unix:/run/p.sock", "https://example.com"})
    void aTokenIsSentOverTlsAndOnThisMachine(String address) {
        assertEquals(
                Optional.of(SECRET),
                config().address(address).token(SECRET).build().token());
    }

    @Test
    void aTokenIsNeverShown() {
        assertFalse(config().token(SECRET).build().toString().contains(SECRET));
        String error = error(config().token(SECRET + "\n"));
        assertFalse(error.contains(SECRET), error);
    }
}
