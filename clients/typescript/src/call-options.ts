/** The options of one call, which override those of its client. */
export interface CallOptions {
  /** The deadline of the call in milliseconds, retries included. */
  readonly deadlineMs?: number;
  /** Ends the call when it is aborted; the call throws the signal's reason. Then it is unknown whether the call counted. */
  readonly signal?: AbortSignal | undefined;
}
