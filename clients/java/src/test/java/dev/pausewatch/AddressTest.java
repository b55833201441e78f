package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class AddressTest {
    @ParameterizedTest
    @CsvSource({
        "127.0.0.1:7420, 127.0.0.1:7420",
        "localhost:1, localhost:1",
        "[::1]:7420, [::1]:7420",
        "http://example.com:65535, example.com:65535",
        "http://example.com/, example.com:80",
        "http://[::1]:7420/, [::1]:7420",
        "https://example.com, https://example.com:443",
        "https://[::1]:7420, https://[::1]:7420",
        "my_host:7420, my_host:7420",
        "unix:/run/p.sock, unix:/run/p.sock",
        "unix:///run/p.sock, unix:/run/p.sock",
        "unix:p.sock, unix:p.sock",
    })
    void everyFormIsReadAndPrintedInItsShortForm(String given, String printed) {
        Address address = Address.parse(given);
        assertEquals(printed, address.toString());
        assertEquals(address, Address.parse(printed));
    }

    @ParameterizedTest
    @CsvSource({
        "'', the host is missing",
        ":7420, ",
        "localhost, the port is missing",
        "[::1], the port is missing",
        "::1:7420, ",
        "host:0, the port is not a number",
        "host:65536, the port is not a number",
        "host:, the port is not a number",
        "http://, the host is missing",
        "http://host:7420/path, more in it",
        "user@host:7420, more in it",
        "ho st:7420, ASCII letters",
        "[host]:7420, no IPv6 address",
        "[::1]x:7420, no IPv6 address",
        "ftp://host:21, \"ftp\" is unknown",
        "unix:, the path is missing",
        "unix://host/p.sock, absolute path",
    })
    void whatIsNoAddressSaysWhy(String given, String why) {
        String error =
                assertThrows(ConfigException.class, () -> Address.parse(given)).getMessage();
        assertTrue(why == null || error.contains(why), error);
        assertTrue(error.startsWith("address \"" + given + "\": "), error);
    }

    @Test
    void theSharedVectors() throws IOException {
        JsonObject vectors = Vectors.known(
                Vectors.file("addresses.json"),
                "about",
                "addresses_taken",
                "addresses_refused",
                "tokens_taken",
                "tokens_refused");
        each(
                vectors,
                "addresses_taken",
                address -> Config.builder().address(address).build());
        each(vectors, "tokens_taken", token -> Config.builder().token(token).build());
        each(vectors, "addresses_refused", address -> {
            Config.Builder config = Config.builder().address(address);
            assertThrows(ConfigException.class, config::build, address);
        });
        each(vectors, "tokens_refused", token -> {
            Config.Builder config = Config.builder().token(token);
            String error =
                    assertThrows(ConfigException.class, config::build, token).getMessage();
            assertFalse(!token.isEmpty() && error.contains(token), error);
        });
    }

    private static void each(JsonObject vectors, String key, Consumer<String> test) {
        assertFalse(vectors.getAsJsonArray(key).isEmpty());
        vectors.getAsJsonArray(key).forEach(value -> test.accept(value.getAsString()));
    }

    @ParameterizedTest
    @ValueSource(strings = {"localhost:1", "127.0.0.1:1", "127.255.255.255:1", "[::1]:1"})
    void loopbackIsKnownByItsName(String address) {
        assertTrue(((Address.Tcp) Address.parse(address)).isLoopback());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"127.0.0.1.example.com:1", "127.0.0.256:1", "128.0.0.1:1", "localhost.example.com:1", "[::2]:1"})
    void whatOnlyLooksLikeLoopbackIsNot(String address) {
        assertEquals(false, ((Address.Tcp) Address.parse(address)).isLoopback());
    }
}
