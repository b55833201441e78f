package dev.pausewatch.player;

import dev.pausewatch.Client;
import dev.pausewatch.Hold;
import dev.pausewatch.PausableDeadline;
import dev.pausewatch.PausewatchException;
import dev.pausewatch.Watch;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** What is open, by its name. */
final class Cast {
    final Map<String, Client> clients = new ConcurrentHashMap<>();
    final Map<String, Hold> holds = new ConcurrentHashMap<>();
    final Map<String, Watch> watches = new ConcurrentHashMap<>();
    final Map<String, PausableDeadline> timeouts = new ConcurrentHashMap<>();
    final Map<String, PausableDeadline.Pause> pauses = new ConcurrentHashMap<>();
    final Map<String, PausableDeadline.Wait> waits = new ConcurrentHashMap<>();

    /** Closes everything, as a program would that uses the library well. */
    void reset() {
        holds.values().forEach(Cast::closeQuietly);
        watches.values().forEach(Watch::close);
        timeouts.values().forEach(PausableDeadline::close);
        clients.values().forEach(Client::close);
        holds.clear();
        watches.clear();
        timeouts.clear();
        pauses.clear();
        waits.clear();
        clients.clear();
    }

    private static void closeQuietly(Hold hold) {
        try {
            hold.close();
        } catch (PausewatchException tooLate) {
            System.err.println("reset: " + tooLate);
        }
    }
}
