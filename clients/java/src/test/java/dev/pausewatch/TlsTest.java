package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.pausewatch.testing.TestCoordinator;
import io.grpc.ServerCredentials;
import io.grpc.TlsServerCredentials;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

class TlsTest {
    private static final String SECRET = "s3cret-token";
    private static final String PEM_OF_NOTHING = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";

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
        server = new FakeServer(credentials(clientAuth));
    }

    private ServerCredentials credentials(TlsServerCredentials.ClientAuth clientAuth) throws Exception {
        Certificates.Signed own = certificates.signed("server");
        return TlsServerCredentials.newBuilder()
                .keyManager(own.cert().toFile(), own.key().toFile())
                .trustManager(authority.toFile())
                .clientAuth(clientAuth)
                .build();
    }

    /** The server ends, and starts again with what the files contain. */
    private void restart() throws Exception {
        server.stop();
        server.restart(credentials(TlsServerCredentials.ClientAuth.REQUIRE));
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

    @Test
    void certificatesAreRenewedWhileTheClientIsOpen() throws Exception {
        Certificates.Signed own = certificates.signed("client");
        serve(TlsServerCredentials.ClientAuth.REQUIRE);
        Config config = config().retries(5)
                .tlsCa(authority)
                .tlsKeyPair(own.cert(), own.key())
                .build();
        try (Client client = Client.open(config);
                Client ofTheOld = Client.open(config().tlsCa(Files.copy(authority, directory.resolve("old.pem")))
                        .tlsKeyPair(own.cert(), own.key())
                        .build())) {
            assertEquals(0, client.getPauseState("t").count());
            assertEquals(0, ofTheOld.getPauseState("t").count());
            // The same files.
            certificates = new Certificates(directory);
            certificates.authority();
            certificates.signed("client");
            restart();
            assertEquals(0, client.getPauseState("t").count());
            assertThrows(UnavailableException.class, () -> ofTheOld.getPauseState("t"));
        }
    }

    @Test
    void aFileThatBecameWrongKeepsTheLastGoodCertificates() throws Exception {
        Certificates.Signed own = certificates.signed("client");
        Path pipe = directory.resolve("pipe");
        List<String> warnings = new CopyOnWriteArrayList<>();
        Logger log = Logger.getLogger(Tls.class.getName());
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord record) {
                if (record.getMessage().contains(directory.toString())) {
                    warnings.add(record.getMessage());
                }
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        log.addHandler(handler);
        serve(TlsServerCredentials.ClientAuth.REQUIRE);
        Config config = config().retries(5)
                .tlsCa(authority)
                .tlsKeyPair(own.cert(), own.key())
                .build();
        try (Client client = Client.open(config)) {
            // The last good ones are not those of the start.
            certificates = new Certificates(directory);
            certificates.authority();
            certificates.signed("client");
            restart();
            assertEquals(0, client.getPauseState("t").count());
            Files.delete(own.key());
            assertEquals(
                    0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
            for (String wrong : List.of(
                    "half of",
                    PEM_OF_NOTHING,
                    Files.readString(certificates.signed("other").key()))) {
                Files.writeString(own.key(), wrong);
                restart();
                assertEquals(0, client.getPauseState("t").count(), wrong);
            }
            Files.delete(own.key());
            restart();
            assertEquals(0, client.getPauseState("t").count());
            restart();
            assertEquals(0, client.getPauseState("t").count());
            assertEquals(4, warnings.size(), "one for each problem: " + warnings);
            Files.move(pipe, own.key());
            restart();
            assertEquals(0, client.getPauseState("t").count());
        } finally {
            log.removeHandler(handler);
        }
    }

    @Test
    @EnabledIfEnvironmentVariable(named = "PAUSEWATCH_PROGRAM", matches = ".+")
    void aTestCoordinatorComesBackAtTheSameAddress() throws Exception {
        server = new FakeServer();
        Certificates.Signed own = certificates.signed("server", "RSA");
        String[] files = {
            "--tls-cert", own.cert().toString(), "--tls-key", own.key().toString()
        };
        try (TestCoordinator coordinator = TestCoordinator.start(files)) {
            String address = coordinator.address();
            coordinator.stop();
            coordinator.restart();
            assertEquals(address, coordinator.address());
            Config config = Config.builder().address(address).tlsCa(authority).build();
            try (Client client = Client.open(config)) {
                assertEquals(0, client.getPauseState("t").count());
            }
        }
    }

    /** The certificates of the test are those of 127.0.0.1. */
    @Test
    void aServerOfAnotherNameIsRefused() throws Exception {
        serve(TlsServerCredentials.ClientAuth.NONE);
        refused(Config.builder()
                .address("https://localhost:" + server.port())
                .retries(0)
                .tlsCa(authority)
                .token(SECRET)
                .build());
        assertEquals(List.of(), server.authorizations);
    }

    /** Also when certificates are exchanged just then. */
    @Test
    void aMoveNeedsNoFiles() throws Exception {
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
