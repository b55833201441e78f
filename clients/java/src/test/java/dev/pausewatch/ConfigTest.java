package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
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
    void anArgumentGoesBeforeTheEnvironmentAndThatBeforeTheFile() throws IOException {
        assertEquals("127.0.0.1:7420", config().build().address().toString());
        file("address = \"file:1\"\nthread_id = \"file\"\n");
        assertEquals("file:1", config().build().address().toString());
        environment.put("PAUSEWATCH_ADDRESS", "env:2");
        assertEquals("env:2", config().build().address().toString());
        assertEquals("arg:3", config().address("arg:3").build().address().toString());
        assertEquals(Optional.of("file"), config().build().threadId());
    }

    @Test
    void aVariableThatIsSetAndEmptyCountsAsNotSet() throws IOException {
        file("thread_id = \"file\"\n");
        environment.put("PAUSEWATCH_THREAD_ID", "");
        assertEquals(Optional.of("file"), config().build().threadId());
    }

    @Test
    void theThreadIsItsOwnVariableThenCodexThenClaudeThenTheFile() throws IOException {
        file("thread_id = \"file\"\n");
        String[] names = {"PAUSEWATCH_THREAD_ID", "CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID"};
        for (String name : names) {
            environment.put(name, "of " + name);
        }
        assertEquals(Optional.of("arg"), config().threadId("arg").build().threadId());
        for (String name : names) {
            assertEquals(Optional.of("of " + name), config().build().threadId());
            environment.put(name, "");
        }
        assertEquals(Optional.of("file"), config().build().threadId());
    }

    @Test
    void anAddressInPlainTextHasNothingOfWhatIsForTls() throws IOException {
        String rest = "thread_id = \"t\"\ntoken = \"fleet\"\n";
        for (String forTls : new String[] {"address = \"https://fleet:1\"\n", "tls_ca = \"/ca\"\n"}) {
            file(rest + forTls);
            environment.remove("PAUSEWATCH_TOKEN");
            environment.remove("PAUSEWATCH_ADDRESS");
            Config byArgument = config().address("127.0.0.1:1").build();
            environment.put("PAUSEWATCH_ADDRESS", "unix:/p.sock");
            for (Config config : new Config[] {byArgument, config().build()}) {
                assertEquals(Optional.of("t"), config.threadId());
                assertEquals(Optional.empty(), config.token(), forTls);
                assertEquals(Optional.empty(), config.tlsCa());
            }
            environment.put("PAUSEWATCH_TOKEN", "ours");
            assertEquals(Optional.of("ours"), config().build().token(), "what stands beside it is meant for it");
        }
        environment.remove("PAUSEWATCH_TOKEN");
        Config encrypted = config().address("https://other:1").build();
        assertEquals(Optional.of("fleet"), encrypted.token(), "what goes over TLS stays");
        assertEquals(Optional.of(Path.of("/ca")), encrypted.tlsCa());
        file(rest);
        assertEquals(
                Optional.of("fleet"), config().address("127.0.0.1:1").build().token());
    }

    @Test
    void whatIsEmptyInTheFileCountsAsNotSet() throws IOException {
        file("address = \"\"\nthread_id = \"\"\ntoken = \"\"\n");
        assertEquals(Address.DEFAULT, config().build().address());
        assertEquals(Optional.empty(), config().build().threadId());
    }

    @Test
    void withoutAnEnvironmentOnlyArgumentsCount() {
        assertEquals("127.0.0.1:7420", Config.builder().build().address().toString());
    }

    @Test
    void theFileInItsUsualPlaceMayBeMissingAndANamedOneMayNot() throws IOException {
        environment.put("HOME", directory.toString());
        assertEquals(Optional.empty(), config().build().threadId());
        Path usual = directory.resolve(".config/pausewatch/config.toml");
        Files.createDirectories(usual.getParent());
        Files.writeString(usual, "thread_id = \"home\"\n");
        assertEquals(Optional.of("home"), config().build().threadId());

        environment.put("XDG_CONFIG_HOME", "relative");
        assertEquals(Optional.of("home"), config().build().threadId());
        environment.put("XDG_CONFIG_HOME", directory.resolve("empty").toString());
        assertEquals(Optional.empty(), config().build().threadId());

        environment.put("PAUSEWATCH_CONFIG", directory.resolve("missing.toml").toString());
        assertTrue(error(config()).contains("missing.toml"));
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
    void thePartOfTheServerIsPassedOver() throws IOException {
        file("thread_id = \"t\"\n[serve]\nlisten = [7]\n");
        assertEquals(Optional.of("t"), config().build().threadId());
    }

    @Test
    void aSyntaxErrorDoesNotRepeatTheToken() throws IOException {
        file("token = \"" + SECRET + "\n");
        assertFalse(error(config()).contains(SECRET), error(config()));
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
