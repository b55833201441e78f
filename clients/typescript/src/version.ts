import type { PauseState } from "./messages.js";

/** The revision of a state, and the epoch of the server's store in which it counts. */
export interface Version {
  readonly epoch: bigint;
  readonly revision: bigint;
}

export function versionOf({ storeEpoch, revision }: PauseState): Version {
  return { epoch: storeEpoch, revision };
}

/** Whether `version` is newer than `reported`. Another epoch counts as newer: the server has lost its previous state. */
export function isNewer(version: Version, reported: Version | undefined): boolean {
  return reported === undefined || reported.epoch !== version.epoch || version.revision > reported.revision;
}
