package dev.pausewatch;

/** Which limit of a {@link PausableDeadline} ended it. */
public enum EndedBy {
    /** Its limit on unpaused time was used up, and the coordinator has confirmed that the thread runs. */
    LIMIT,
    /** Its limit on wall time was over, which no pause extends: {@link DeadlineOptions#maxWall()}. */
    MAX_WALL
}
