/** The state of the lease of a hold, as far as it is known. */
export type Lease =
  /** The elicitation is open. */
  | "held"
  /**
   * No renewal succeeded for a whole ttl: the lease has ended, or the server is down. Renewals are still tried; if one succeeds, the lease is
   * `held` again. Or the client is closed: the lease is not renewed any more, and ends at the latest one ttl later.
   */
  | "overdue"
  /** The lease ended: the elicitation is closed, and its thread runs unless another one is open. */
  | "expired"
  /** The elicitation was closed by a decrement. */
  | "released"
  /** The server does not know the elicitation: it lost its state, or forgot the elicitation after some time. */
  | "unknown"
  /** A best-effort hold that could not be opened: nothing was paused. */
  | "notOpen";
