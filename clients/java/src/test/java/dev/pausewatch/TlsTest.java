package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.ServerCredentials;
import io.grpc.TlsServerCredentials;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TlsTest {
    private static final String SECRET = "s3cret-token";

    @TempDir
    Path directory;

    private Certificates certificates;
    private Path authority;
    private FakeServer server;

    @BeforeEach
    void certify() throws Exception {
        certificates = new Certificates(directory);
        authority = certificates.authority();
    }

    @AfterEach
    void close() {
        server.close();
    }

    private void serve(TlsServerCredentials.ClientAuth clientAuth) throws Exception {
        Certificates.Signed own = certificates.signed("server");
        ServerCredentials credentials = TlsServerCredentials.newBuilder()
                .keyManager(own.cert().toFile(), own.key().toFile())
                .trustManager(authority.toFile())
                .clientAuth(clientAuth)
                .build();
        server = new FakeServer(credentials);
    }

    private Config.Builder config() {
        return Config.builder().address("https://" + server.address()).retries(0);
    }

    private static PausewatchException refused(Config config) {
        try (Client client = Client.open(config)) {
            return assertThrows(UnavailableException.class, () -> client.getPauseState("t"));
        }
    }

    @Test
    void aServerOfTheAuthorityIsTalkedToAndGetsTheToken() throws Exception {
        serve(TlsServerCredentials.ClientAuth.NONE);
        try (Client client = Client.open(config().tlsCa(authority).token(SECRET).build())) {
            assertEquals(0, client.getPauseState("t").count());
        }
        assertEquals(List.of("Bearer " + SECRET), server.authorizations);
    }

    /** Also when certificates are exchanged just then. */
    @Test
    void aMoveDoesNotReadTheFilesAgain() throws Exception {
        serve(TlsServerCredentials.ClientAuth.NONE);
        String alive = "https://" + server.address();
        Config config = Config.builder()
                .address("https://127.0.0.1:1," + alive)
                .tlsCa(authority)
                .build();
        for (int i = 0; i < 8; i++) {
            Path aside = authority.resolveSibling("aside.pem");
            // In random order: some of the clients begin at the address where nobody is.
            try (Client client = Client.open(config)) {
                Files.move(authority, aside);
                assertEquals(0, client.getPauseState("t").count());
            } finally {
                Files.move(aside, authority);
            }
        }
    }

    @Test
    void aServerOfAnotherAuthorityIsNotAndGetsNoToken() throws Exception {
        serve(TlsServerCredentials.ClientAuth.NONE);
        Path other = new Certificates(Files.createDirectory(directory.resolve("other"))).authority();
        PausewatchException error = refused(config().tlsCa(other).token(SECRET).build());
        assertFalse(error.toString().contains(SECRET));
        assertEquals(List.of(), server.authorizations);
        refused(config().build());
    }

    @Test
    void aServerThatAsksForACertificateGetsOne() throws Exception {
        serve(TlsServerCredentials.ClientAuth.REQUIRE);
        refused(config().tlsCa(authority).build());
        Certificates.Signed own = certificates.signed("client");
        Config known =
                config().tlsCa(authority).tlsKeyPair(own.cert(), own.key()).build();
        try (Client client = Client.open(known)) {
            assertEquals(0, client.getPauseState("t").count());
        }
    }

    @Test
    void aFileThatCannotBeReadIsNamed() throws IOException {
        server = new FakeServer();
        Path missing = directory.resolve("missing.pem");
        ConfigException error = assertThrows(
                ConfigException.class, () -> Client.open(config().tlsCa(missing).build()));
        assertTrue(error.getMessage().contains("tls_ca " + missing), error.getMessage());
        Path empty = Files.createFile(directory.resolve("empty.pem"));
        assertThrows(
                ConfigException.class, () -> Client.open(config().tlsCa(empty).build()));
    }

    @Test
    void aKeyThatIsNoneIsRefusedAtOnce() throws Exception {
        server = new FakeServer();
        Certificates.Signed own = certificates.signed("client");
        ConfigException error = assertThrows(
                ConfigException.class,
                () -> Client.open(config().tlsKeyPair(own.cert(), own.cert()).build()));
        assertTrue(error.getMessage().contains("PKCS #8"), error.getMessage());
    }
}
