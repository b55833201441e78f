package dev.pausewatch.testing;

import dev.pausewatch.Client;
import dev.pausewatch.Config;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * A coordinator for the tests of programs that use this library: {@code pausewatch serve} with a memory store, on a
 * free port. It is the real program, so counts, leases, watches and exceptions are the same as in production.
 *
 * <pre>{@code
 * try (TestCoordinator coordinator = TestCoordinator.start();
 *         Client client = coordinator.client()) {
 *     // ...
 * }
 * }</pre>
 *
 * <p>It ends with this process at the latest.
 */
public final class TestCoordinator implements AutoCloseable {
    private static final String LISTENING = "listening ";

    private final List<String> options;
    private final Thread killAtExit = new Thread(this::kill);
    private String address = "127.0.0.1:0";
    private Optional<Process> process = Optional.empty();

    private TestCoordinator(List<String> options) {
        this.options = options;
    }

    /**
     * Starts one, and waits until it listens. The program is the one of the variable {@code PAUSEWATCH_PROGRAM}, else that of {@code PATH}.
     *
     * @param options more options of {@code pausewatch serve}, such as {@code "--max-pause", "10s"}
     * @throws IllegalStateException the program was not found, or does not start; the message has its error output, or
     *     what to do
     */
    public static TestCoordinator start(String... options) {
        TestCoordinator coordinator = new TestCoordinator(List.of(options));
        coordinator.restart();
        Runtime.getRuntime().addShutdownHook(coordinator.killAtExit);
        return coordinator;
    }

    /** Its address, the same after a stop and a restart: for {@code PAUSEWATCH_ADDRESS} of the tested program. */
    public synchronized String address() {
        return address;
    }

    /** A new client of this coordinator, which ignores the environment. */
    public Client client() {
        return Client.open(Config.builder().address(address()).build());
    }

    /**
     * Starts it again after a {@link #stop()}, without its previous state.
     *
     * @throws IllegalStateException as {@link #start}; or it is running
     */
    public synchronized void restart() {
        if (process.isPresent()) {
            throw new IllegalStateException("this coordinator is running");
        }
        String named = Optional.ofNullable(System.getenv("PAUSEWATCH_PROGRAM")).orElse("");
        String program = named.isEmpty() ? "pausewatch" : named;
        String listen = address.replace("https://", "");
        List<String> command = new ArrayList<>(List.of(program, "serve", "--listen", listen, "--store", "memory"));
        command.addAll(options);
        try {
            Path said = Files.createTempFile("pausewatch-", ".log");
            try {
                listen(command, said.toFile());
            } finally {
                Files.delete(said);
            }
        } catch (IOException failed) {
            throw new IllegalStateException(
                    program
                            + " cannot be started: put it on the PATH, or its path into the variable PAUSEWATCH_PROGRAM",
                    failed);
        }
    }

    private void listen(List<String> command, File said) throws IOException {
        Process started = new ProcessBuilder(command)
                .redirectInput(ProcessBuilder.Redirect.PIPE)
                .redirectError(said)
                .start();
        process = Optional.of(started);
        BufferedReader out =
                new BufferedReader(new InputStreamReader(started.getInputStream(), StandardCharsets.UTF_8));
        String line = Optional.ofNullable(out.readLine()).orElse("");
        if (!line.startsWith(LISTENING)) {
            stop();
            throw new IllegalStateException(String.join(" ", command) + " does not start: "
                    + Files.readString(said.toPath()).strip());
        }
        address = line.substring(LISTENING.length());
    }

    /** Kills it, as a crash would. Calling it again does nothing. */
    public synchronized void stop() {
        kill();
        process.ifPresent(killed -> killed.onExit().join());
        process = Optional.empty();
    }

    private void kill() {
        process.ifPresent(Process::destroyForcibly);
    }

    /** As {@link #stop()}. */
    @Override
    public void close() {
        stop();
        try {
            Runtime.getRuntime().removeShutdownHook(killAtExit);
        } catch (IllegalStateException ending) {
            // The hook runs by itself.
        }
    }
}
