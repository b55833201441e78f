package dev.pausewatch;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** A coordinator: the program that {@code PAUSEWATCH_PROGRAM} names, in memory. */
final class RealServer implements AutoCloseable {
    private final Process process;
    private final String address;

    RealServer(String listen) throws IOException {
        process = new ProcessBuilder(
                        System.getenv("PAUSEWATCH_PROGRAM"), "serve", "--listen", listen, "--store", "memory")
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        BufferedReader said =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        address = said.readLine().substring("listening ".length());
    }

    String address() {
        return address;
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
