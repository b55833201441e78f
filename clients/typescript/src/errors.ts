/**
 * What a call can end with: one class for each thing that a caller does next, found by the machine-readable reason that the server sends
 * (`google.rpc.ErrorInfo`, domain `pausewatch`), never by a message's text.
 */
import { durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  BadRequestSchema,
  type ErrorInfo,
  ErrorInfoSchema,
  RetryInfoSchema,
} from "./gen/google/rpc/error_details_pb.js";
import type { Refusal } from "./gen/pausewatch/v1/elicitation_service_pb.js";

const DOMAIN = "pausewatch";
/** The names of the limits of calls a second begin so. */
const CALLS_PER_SECOND = "calls-per-second";

/** The base of every error that this library makes. */
export class PausewatchError extends Error {
  override name = "PausewatchError";
}

/** An option, an environment variable or the config file is wrong. The message says which, and never what a token is. */
export class ConfigError extends PausewatchError {
  override name = "ConfigError";
}

/** Says where a {@link ConfigError} of `action` comes from. */
export function within<T>(place: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    throw error instanceof ConfigError ? new ConfigError(`${place}: ${error.message}`) : error;
  }
}

/** A call failed. By itself, not as a subclass: for a reason that has no class of its own; see `code`. */
export class CallError extends PausewatchError {
  override name = "CallError";
  /** Not the `cause`: whoever prints the error would print the descriptors of the proto too. */
  readonly #status: ConnectError;

  /** @internal */
  constructor(status: ConnectError) {
    super(status.rawMessage, systemError(status));
    this.#status = status;
  }

  /**
   * The status as it came, or as this library made it when nothing came.
   *
   * @internal
   */
  static statusOf(error: CallError): ConnectError {
    return error.#status;
  }

  /** The gRPC code, a number: 14 is UNAVAILABLE. */
  get code(): number {
    return this.#status.code;
  }

  /** The server's reason, for example `ELICITATION_EXPIRED`; `undefined` when it gave none, or never answered. */
  get reason(): string | undefined {
    return errorInfo(this.#status)?.reason;
  }

  /** Every dynamic part of the message, by name. */
  get metadata(): Readonly<Record<string, string>> {
    return errorInfo(this.#status)?.metadata ?? {};
  }

  /** Whether the call may succeed if it is made again just so, with the same request id. */
  get transient(): boolean {
    return false;
  }
}

/** A field is out of its limits. Nothing changed; the same call will always be refused. */
export class InvalidFieldError extends CallError {
  override name = "InvalidFieldError";
  /** The field, as the proto names it: `thread_id`. */
  readonly field: string;
  /** What it was and what is allowed. */
  readonly description: string;

  /** @internal */
  constructor(status: ConnectError) {
    super(status);
    const violation = status.findDetails(BadRequestSchema)[0]?.fieldViolations[0];
    this.field = violation?.field ?? "";
    this.description = violation?.description || status.rawMessage;
  }
}

/** The request id was used by a call with other content. Nothing changed by this call. */
export class RequestIdReusedError extends CallError {
  override name = "RequestIdReusedError";
}

/** A decrement at count 0: there is nothing to close. Nothing changed. */
export class NoOutstandingElicitationError extends CallError {
  override name = "NoOutstandingElicitationError";
}

/** The elicitation never existed on this thread, or was closed so long ago that the server has forgotten it. Nothing changed. */
export class ElicitationUnknownError extends CallError {
  override name = "ElicitationUnknownError";
}

/** The named elicitation was closed before, by a decrement. Nothing changed. */
export class ElicitationReleasedError extends CallError {
  override name = "ElicitationReleasedError";
}

/** The named elicitation was closed before, by the end of its lease: an answer came too late. Nothing changed. */
export class ElicitationExpiredError extends CallError {
  override name = "ElicitationExpiredError";
}

/** The thread has as many open elicitations as are allowed. Nothing changed; there is room when one closes. */
export class TooManyElicitationsError extends CallError {
  override name = "TooManyElicitationsError";
}

/**
 * The caller, or all callers together, have as much as the coordinator lets them have. Nothing changed. For a limit of calls a second, which
 * alone is transient, retries within the deadline did not help. Any other limit is met until something is closed.
 */
export class LimitExceededError extends CallError {
  override name = "LimitExceededError";
  /** Which limit, as the coordinator names it: `streams-per-caller`. */
  readonly limit: string;
  /** When another try may help; `undefined` when the server gave no time. */
  readonly retryAfterMs: number | undefined;

  /** @internal */
  constructor(status: ConnectError) {
    super(status);
    this.limit = this.metadata.limit ?? "";
    const delay = status.findDetails(RetryInfoSchema)[0]?.retryDelay;
    this.retryAfterMs = delay && Math.max(0, durationMs(delay));
  }

  override get transient(): boolean {
    return this.limit.startsWith(CALLS_PER_SECOND);
  }
}

/** The token is missing, wrong or has expired: see `reason`. Nothing changed. */
export class UnauthenticatedError extends CallError {
  override name = "UnauthenticatedError";
}

/** The token does not open this thread, or its role may not do this: see `reason`. Nothing changed. */
export class PermissionDeniedError extends CallError {
  override name = "PermissionDeniedError";
}

/** The outcome may be unknown: call again with the same request id, and it counts once. */
class TransientError extends CallError {
  override get transient(): boolean {
    return true;
  }
}

/** The coordinator could not store the change, and retries within the deadline did not help. Nothing changed. */
export class StoreUnavailableError extends TransientError {
  override name = "StoreUnavailableError";
}

/**
 * No coordinator answered: none listens there, it is draining, or the connection broke, and retries within the deadline did not help. The
 * outcome is unknown.
 */
export class UnavailableError extends TransientError {
  override name = "UnavailableError";
}

/** The deadline passed. The outcome is unknown. */
export class DeadlineExceededError extends TransientError {
  override name = "DeadlineExceededError";
}

const BY_REASON: ReadonlyMap<string, new (status: ConnectError) => CallError> = new Map([
  ["INVALID_FIELD", InvalidFieldError],
  ["REQUEST_ID_REUSED", RequestIdReusedError],
  ["NO_OUTSTANDING_ELICITATION", NoOutstandingElicitationError],
  ["ELICITATION_UNKNOWN", ElicitationUnknownError],
  ["ELICITATION_RELEASED", ElicitationReleasedError],
  ["ELICITATION_EXPIRED", ElicitationExpiredError],
  ["TOO_MANY_ELICITATIONS", TooManyElicitationsError],
  ["LIMIT_EXCEEDED", LimitExceededError],
  ["STORE_UNAVAILABLE", StoreUnavailableError],
]);

/**
 * The error for a status that a call to `address` ended with.
 *
 * @internal
 */
export function fromStatus(status: ConnectError, address?: string): CallError {
  const named = BY_REASON.get(errorInfo(status)?.reason ?? "");
  if (named !== undefined) return new named(status);
  // By their code: a proxy in front of the server may ask for tokens as well.
  if (status.code === Code.Unauthenticated) return new UnauthenticatedError(status);
  if (status.code === Code.PermissionDenied) return new PermissionDeniedError(status);
  if (status.code === Code.DeadlineExceeded) return new DeadlineExceededError(status);
  if (nobodyAnswered(status)) return new UnavailableError(broken(status, address));
  return status.code === Code.Unavailable ? new UnavailableError(status) : new CallError(status);
}

/**
 * How long to wait, if it is only that there were too many calls in this second; `undefined` for any other error. Any other limit is met
 * until somebody closes something.
 */
export function callLessOftenMs(error: CallError): number | undefined {
  return error instanceof LimitExceededError && error.transient ? (error.retryAfterMs ?? 1_000) : undefined;
}

/** A field that this library refuses before it sends anything, worded as the server words it. */
export function invalidField(field: string, description: string): InvalidFieldError {
  const info = { desc: ErrorInfoSchema, value: { reason: "INVALID_FIELD", domain: DOMAIN, metadata: { field } } };
  const violation = { desc: BadRequestSchema, value: { fieldViolations: [{ field, description }] } };
  return new InvalidFieldError(new ConnectError(description, Code.InvalidArgument, undefined, [info, violation]));
}

/** A deadline that passed on this side. */
export function deadlineExceeded(afterMs: number): DeadlineExceededError {
  return new DeadlineExceededError(new ConnectError(`no answer within ${afterMs} ms`, Code.DeadlineExceeded));
}

/**
 * A request of a stream that was refused, as the error of a call would be.
 *
 * @internal
 */
export function refusalError({ code, reason, message, retryAfter }: Refusal): CallError {
  const info = { desc: ErrorInfoSchema, value: { reason, domain: DOMAIN } };
  const retry = retryAfter === undefined ? [] : [{ desc: RetryInfoSchema, value: { retryDelay: retryAfter } }];
  return fromStatus(new ConnectError(message, code as Code, { "grpc-status": `${code}` }, [info, ...retry]));
}

/** A stream that told nothing any more, or ended. */
export function unavailable(text: string): UnavailableError {
  return new UnavailableError(new ConnectError(text, Code.Unavailable));
}

/** What a client that was closed says to every call. */
export function clientClosed(): CallError {
  return new CallError(new ConnectError("the client is closed", Code.Canceled));
}

/** An answer without a part that every server of ours sends. */
export function malformedAnswer(): CallError {
  return new CallError(new ConnectError("the server's answer is incomplete", Code.Internal));
}

function errorInfo(status: ConnectError): ErrorInfo | undefined {
  return status.findDetails(ErrorInfoSchema).find((info) => info.domain === DOMAIN);
}

/**
 * Whether the status was made on this side: the transport failed before an answer was whole. It names the code after the layer that noticed
 * (ABORTED, CANCELLED, INTERNAL); to a caller it is one thing. A status that a server sent has at least the headers of its response.
 */
function nobodyAnswered(status: ConnectError): boolean {
  return status.metadata.keys().next().done === true;
}

function broken(status: ConnectError, address: string | undefined): ConnectError {
  const message = systemError(status)?.cause.message ?? status.rawMessage;
  const where = address === undefined ? "" : `${address}: `;
  return new ConnectError(`${where}connection lost: ${message}`, Code.Unavailable, undefined, undefined, status);
}

/** The error of the system that a status of this side comes from, as `cause`. */
function systemError(status: ConnectError): { cause: Error } | undefined {
  let cause: unknown = status;
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause;
  return cause instanceof Error && !(cause instanceof ConnectError) ? { cause } : undefined;
}
