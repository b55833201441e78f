package dev.pausewatch;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.UserPrincipal;

/** The owner of a directory. */
final class Owner {
    private Owner() {}

    /** The first of these that can be seen decides: the directory, or one above it; some may be hidden or missing. */
    static boolean isAnotherUser(Path directory) {
        for (Path place = directory; place != null; place = place.getParent()) {
            try {
                return !Files.getOwner(place).equals(user());
            } catch (IOException | UnsupportedOperationException hidden) {
                // The directory above decides.
            }
        }
        return true;
    }

    /** The user of this process. */
    private static UserPrincipal user() throws IOException {
        Path process = Path.of("/proc/self");
        if (Files.exists(process)) {
            return Files.getOwner(process);
        }
        Path home = Path.of(System.getProperty("user.home"));
        return home.getFileSystem()
                .getUserPrincipalLookupService()
                .lookupPrincipalByName(System.getProperty("user.name"));
    }
}
