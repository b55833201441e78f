package dev.pausewatch;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** The test vectors that all clients share: {@code clients/vectors}. */
final class Vectors {
    private Vectors() {}

    static JsonObject file(String name) throws IOException {
        return JsonParser.parseString(Files.readString(Path.of("../vectors", name)))
                .getAsJsonObject();
    }

    /** The cases of a file. */
    static List<JsonObject> cases(String name) throws IOException {
        List<JsonObject> cases = list(file(name), "cases");
        if (cases.isEmpty()) {
            throw new AssertionError(name + " has no cases");
        }
        return cases;
    }

    static List<JsonObject> list(JsonObject of, String key) {
        return of.getAsJsonArray(key).asList().stream()
                .map(JsonElement::getAsJsonObject)
                .toList();
    }

    /** Fails if there is a key that the test does not know. */
    static JsonObject known(JsonObject object, String... keys) {
        if (!Set.of(keys).containsAll(object.keySet())) {
            throw new AssertionError("unknown key in " + object);
        }
        return object;
    }

    /** A time, in nanoseconds. */
    static long nanos(JsonObject of, String key) {
        return TimeUnit.MILLISECONDS.toNanos(of.get(key).getAsLong());
    }
}
