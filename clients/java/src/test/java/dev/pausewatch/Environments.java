package dev.pausewatch;

import java.util.Map;

/** Lets the player, which is in another package, give a config an environment of its own. */
public final class Environments {
    private Environments() {}

    /** As {@link Config#fromEnv()}, with these variables instead of the process's. */
    public static Config.Builder config(Map<String, String> variables) {
        return Config.fromEnv(variables::get);
    }
}
