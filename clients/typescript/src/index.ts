/**
 * The client of pausewatch: timeouts that stand still while a person is being asked.
 *
 * | name | description |
 * | --- | --- |
 * | {@link Client} | the calls, each with a deadline and retries that count once |
 * | {@link Hold} | an open elicitation: renewed while it is held, closed when its block ends |
 * | {@link Watch} | the states of a changing set of threads, across reconnects |
 * | {@link pausableTimeout}, {@link PausableTimeout} | a time limit that stands still while a person is being asked |
 * | {@link PausewatchError} | the base class of the errors: one class for each possible reaction of the caller |
 */
export type { CallOptions } from "./call-options.js";
export type { ChannelOptions, ConnectInterceptor, ConnectTransport } from "./channel-options.js";
export { Client, type ClientOptions, type EnvironmentOptions } from "./client.js";
export { pausableTimeout } from "./default-client.js";
export {
  CallError,
  ConfigError,
  DeadlineExceededError,
  ElicitationExpiredError,
  ElicitationReleasedError,
  ElicitationUnknownError,
  InvalidFieldError,
  LimitExceededError,
  NoOutstandingElicitationError,
  PausewatchError,
  PermissionDeniedError,
  RequestIdReusedError,
  StoreUnavailableError,
  TooManyElicitationsError,
  UnauthenticatedError,
  UnavailableError,
} from "./errors.js";
export type { Hold, HoldOptions, Release } from "./hold.js";
export type { Lease } from "./lease.js";
export type { Logger } from "./log.js";
export type {
  ClosedElicitation,
  DecrementRequest,
  DecrementResponse,
  Elicitation,
  GetRequest,
  IncrementRequest,
  IncrementResponse,
  ListPausesRequest,
  ListPausesResponse,
  ListRequest,
  ListResponse,
  Pause,
  PauseEnd,
  PauseState,
  RenewRequest,
} from "./messages.js";
export type { ConnectionOptions } from "./settings.js";
export type { EndedBy } from "./stopwatch/ended-by.js";
export type { Link } from "./stopwatch/link.js";
export { type PausableTimeout, PausableTimeoutError, type TimeoutOptions } from "./stopwatch/timeout.js";
export type { TokenSource } from "./token.js";
export { type TraceApi, traceContext } from "./trace.js";
export type { DisconnectedEvent, StateEvent, WatchEvent } from "./watch/event.js";
export type { Watch, WatchOptions } from "./watch/watch.js";
