package dev.pausewatch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** A program that imports this package and a package of Java must not have to choose. */
class NamesTest {
    private static final List<String> PACKAGES = List.of(
            "java.lang",
            "java.io",
            "java.net",
            "java.nio.file",
            "java.time",
            "java.util",
            "java.util.concurrent",
            "java.util.function");

    @Test
    void noPublicTypeHasTheNameOfATypeOfJava() throws Exception {
        Path classes = Path.of(
                Client.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        List<String> names;
        try (Stream<Path> files = Files.list(classes.resolve("dev/pausewatch"))) {
            names = files.map(file -> file.getFileName().toString())
                    .filter(name -> name.endsWith(".class") && !name.contains("$") && !name.contains("-"))
                    .map(name -> name.replace(".class", ""))
                    .filter(name -> Modifier.isPublic(
                            type("dev.pausewatch." + name).orElseThrow().getModifiers()))
                    .toList();
        }
        assertTrue(names.contains("Watch"));
        List<String> taken = names.stream()
                .flatMap(name -> PACKAGES.stream().map(each -> each + "." + name))
                .filter(name -> type(name).isPresent())
                .toList();
        assertEquals(List.of(), taken);
    }

    private static java.util.Optional<Class<?>> type(String name) {
        try {
            return java.util.Optional.of(Class.forName(name));
        } catch (ClassNotFoundException none) {
            return java.util.Optional.empty();
        }
    }
}
