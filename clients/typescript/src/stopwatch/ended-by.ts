/** The limit that ended a timeout: the one on unpaused time, or the one on wall time. */
export type EndedBy = "limit" | "maxWall";
