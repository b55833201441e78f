/** What one call may differ in from its client. */
export interface CallOptions {
  /** How long the call may take, retries included. */
  readonly deadlineMs?: number;
  /** Ends the call with the signal's reason. Whether the call counted is unknown then. */
  readonly signal?: AbortSignal | undefined;
}
