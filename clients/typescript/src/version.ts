import type { PauseState } from "./messages.js";

/** The revision of a state, and the epoch of the server's store in which it counts. */
export interface Version {
  readonly epoch: bigint;
  readonly revision: bigint;
}

export function versionOf({ storeEpoch, revision }: PauseState): Version {
  return { epoch: storeEpoch, revision };
}

/** Whether `told` is as new as the state of `version`. Another epoch is news: the server lost what it told before. */
export function isNoNews(version: Version, told: Version | undefined): boolean {
  return told !== undefined && told.epoch === version.epoch && version.revision <= told.revision;
}
