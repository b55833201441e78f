/** Which limit ended a timeout: that on unpaused time, or that on wall time. */
export type EndedBy = "limit" | "maxWall";
