package dev.pausewatch.soak;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.logging.LogManager;

/** A program that uses the library for as long as it is asked to: one line of JSON a round from standard input, one a round to standard output. */
public final class Soak {
    private Soak() {}

    /** Plays rounds until the input ends. */
    public static void main(String[] arguments) {
        try {
            play();
            System.exit(0);
        } catch (Exception failed) {
            failed.printStackTrace();
            // Threads of the round may still run.
            System.exit(1);
        }
    }

    private static void play() throws Exception {
        // A disturbed server causes warnings.
        LogManager.getLogManager().reset();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonObject order = JsonParser.parseString(line).getAsJsonObject();
            ExecutorService workers = workers();
            Counts counts = new Round(order, workers).play();
            workers.shutdown();
            System.gc();
            JsonObject result = new Gson().toJsonTree(counts).getAsJsonObject();
            result.add("round", order.get("round"));
            result.addProperty("tasks", Thread.getAllStackTraces().size());
            System.out.println(result);
        }
    }

    /** Virtual threads, where Java has them (21 or later). */
    private static ExecutorService workers() throws ReflectiveOperationException {
        try {
            return (ExecutorService)
                    Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        } catch (NoSuchMethodException older) {
            return Executors.newCachedThreadPool();
        }
    }
}
