package dev.pausewatch.player;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.pausewatch.Client;
import dev.pausewatch.Config;
import dev.pausewatch.PausableDeadline;
import dev.pausewatch.UnavailableException;
import dev.pausewatch.Watch;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Runs the steps of {@code clients/scenarios} with this library: it reads one JSON object per line and writes one per
 * line, and steps overlap. The README there specifies what a player does.
 */
public final class Player {
    private final PrintStream answers;
    private final Cast cast = new Cast();

    private Player(PrintStream answers) {
        this.answers = answers;
    }

    /** Plays until its input ends. */
    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        warmUp();
        Player player = new Player(answers);
        ExecutorService steps = Executors.newCachedThreadPool();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonObject step = JsonParser.parseString(line).getAsJsonObject();
            steps.execute(() -> player.play(step));
        }
        // Steps that still wait are abandoned.
        System.exit(0);
    }

    /**
     * The first call of a JVM takes half a second to load classes. It is made here, to an address without a server, so
     * that it does not slow down a case that measures time.
     */
    private static void warmUp() {
        Config nobody = Config.builder().address("unix:/dev/null").retries(0).build();
        try (Client client = Client.open(nobody);
                Watch watch = client.watch("t").open();
                PausableDeadline deadline = client.deadline("t", Duration.ZERO)) {
            watch.next();
            deadline.read();
            client.hold("t").open().close();
        } catch (UnavailableException asExpected) {
            System.err.println("ready");
        }
    }

    private void play(JsonObject step) {
        JsonObject answer = new JsonObject();
        answer.add("id", step.get("id"));
        try {
            answer.add("ok", new Gson().toJsonTree(new Step(cast, step).play()));
        } catch (Exception thrown) {
            answer.add("error", new Gson().toJsonTree(Answers.error(thrown)));
        }
        synchronized (answers) {
            answers.println(answer);
            answers.flush();
        }
    }
}
