/**
 * The errors of this library: one class for each possible reaction of the caller. The class of a refusal is chosen by the machine-readable
 * reason that the server sends (`google.rpc.ErrorInfo`, domain `pausewatch`), never by its text.
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
/** The prefix of the names of the limits of calls per second. */
const CALLS_PER_SECOND = "calls-per-second";

/** The base class of all errors of this library. */
export class PausewatchError extends Error {
  override name = "PausewatchError";
}

/** An option, an environment variable or the config file is not valid. The message says which, and never has a token in it. */
export class ConfigError extends PausewatchError {
  override name = "ConfigError";
}

/**
 * An interceptor of the program has thrown `thrown`: that is neither an answer nor a lost connection.
 *
 * @internal
 */
export class InterceptorError extends Error {
  readonly thrown: unknown;

  constructor(thrown: unknown) {
    super(`an interceptor failed: ${thrown instanceof Error ? thrown.message : thrown}`);
    this.thrown = thrown;
  }
}

/** Adds `place` to the message of a {@link ConfigError} of `action`. */
export function within<T>(place: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    throw error instanceof ConfigError ? new ConfigError(`${place}: ${error.message}`) : error;
  }
}

/** A call failed. Used directly if no subclass fits the reason: see `code`. */
export class CallError extends PausewatchError {
  override name = "CallError";
  /** Not the `cause`, since printing the error would print the descriptors of the proto too. */
  readonly #status: ConnectError;

  /** @internal */
  constructor(status: ConnectError) {
    super(status.rawMessage, systemError(status));
    this.#status = status;
  }

  /**
   * The status: the server's, or this library's own if there was no answer.
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

  /** The server's reason, for example `ELICITATION_EXPIRED`; `undefined` if it sent none, or did not answer. */
  get reason(): string | undefined {
    return errorInfo(this.#status)?.reason;
  }

  /** Every dynamic part of the message, by name. */
  get metadata(): Readonly<Record<string, string>> {
    return errorInfo(this.#status)?.metadata ?? {};
  }

  /** Whether the same call may succeed if it is repeated with the same request id. */
  get transient(): boolean {
    return false;
  }
}

/** A field is out of its limits. Nothing changed; the same call is always refused. */
export class InvalidFieldError extends CallError {
  override name = "InvalidFieldError";
  /** The name of the field in the proto, for example `thread_id`. */
  readonly field: string;
  /** The problem, and the allowed values. */
  readonly description: string;

  /** @internal */
  constructor(status: ConnectError) {
    super(status);
    const violation = status.findDetails(BadRequestSchema)[0]?.fieldViolations[0];
    this.field = violation?.field ?? "";
    this.description = violation?.description || status.rawMessage;
  }
}

/** The request id was already used by a call with other content. This call changed nothing. */
export class RequestIdReusedError extends CallError {
  override name = "RequestIdReusedError";
}

/** The thread has no open elicitation to close (a decrement at count 0). Nothing changed. */
export class NoOutstandingElicitationError extends CallError {
  override name = "NoOutstandingElicitationError";
}

/** The elicitation never existed on this thread, or was closed so long ago that the server has forgotten it. Nothing changed. */
export class ElicitationUnknownError extends CallError {
  override name = "ElicitationUnknownError";
}

/** The elicitation was already closed, by a decrement. Nothing changed. */
export class ElicitationReleasedError extends CallError {
  override name = "ElicitationReleasedError";
}

/** The elicitation was already closed, by the end of its lease: the answer came too late. Nothing changed. */
export class ElicitationExpiredError extends CallError {
  override name = "ElicitationExpiredError";
}

/** The thread has the maximum number of open elicitations. Nothing changed; retry after one was closed. */
export class TooManyElicitationsError extends CallError {
  override name = "TooManyElicitationsError";
}

/**
 * A limit of the caller, or of all callers together, is reached. Nothing changed. Only a limit of calls per second is transient; retries within
 * the deadline did not help. Any other limit stays reached until something is closed.
 */
export class LimitExceededError extends CallError {
  override name = "LimitExceededError";
  /** The coordinator's name of the limit, for example `streams-per-caller`. */
  readonly limit: string;
  /** The delay after which a retry may succeed, in milliseconds; `undefined` if the server sent none. */
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

/** The token is missing, wrong or expired: see `reason`. Nothing changed. */
export class UnauthenticatedError extends CallError {
  override name = "UnauthenticatedError";
}

/** The token gives no access to this thread, or its role does not allow this call: see `reason`. Nothing changed. */
export class PermissionDeniedError extends CallError {
  override name = "PermissionDeniedError";
}

/** It may be unknown whether the call counted: call again with the same request id, and it counts once. */
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
 * No coordinator answered: none listens at the address, it is draining, or the connection was lost, and retries within the deadline did not
 * help. Whether the call counted is unknown.
 */
export class UnavailableError extends TransientError {
  override name = "UnavailableError";
}

/** The deadline passed. Whether the call counted is unknown. */
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
 * Converts the status of a call to `address` to an error.
 *
 * @internal
 */
export function fromStatus(status: ConnectError, address?: string): CallError {
  if (status.cause instanceof InterceptorError) return new CallError(status);
  const named = BY_REASON.get(errorInfo(status)?.reason ?? "");
  if (named !== undefined) return new named(status);
  // Chosen by the code, without a reason: a proxy in front of the server may require a token too.
  if (status.code === Code.Unauthenticated) return new UnauthenticatedError(status);
  if (status.code === Code.PermissionDenied) return new PermissionDeniedError(status);
  if (status.code === Code.DeadlineExceeded) return new DeadlineExceededError(status);
  if (hasNoAnswer(status)) return new UnavailableError(connectionLost(status, address));
  return status.code === Code.Unavailable ? new UnavailableError(status) : new CallError(status);
}

/**
 * The delay before a retry, if the limit of calls per second was exceeded; `undefined` for any other error. Other limits are not retried: they
 * stay reached until something is closed.
 */
export function rateLimitDelayMs(error: CallError): number | undefined {
  return error instanceof LimitExceededError && error.transient ? (error.retryAfterMs ?? 1_000) : undefined;
}

/** The error for a field that this library refuses before it sends anything, with the wording of the server. */
export function invalidField(field: string, description: string): InvalidFieldError {
  const info = { desc: ErrorInfoSchema, value: { reason: "INVALID_FIELD", domain: DOMAIN, metadata: { field } } };
  const violation = { desc: BadRequestSchema, value: { fieldViolations: [{ field, description }] } };
  return new InvalidFieldError(new ConnectError(description, Code.InvalidArgument, undefined, [info, violation]));
}

/** The error for a deadline that passed in this process. */
export function deadlineExceeded(afterMs: number): DeadlineExceededError {
  return new DeadlineExceededError(new ConnectError(`no answer within ${afterMs} ms`, Code.DeadlineExceeded));
}

/**
 * Converts the refusal of a request of a stream to the error of a call.
 *
 * @internal
 */
export function refusalError({ code, reason, message, retryAfter }: Refusal): CallError {
  const info = { desc: ErrorInfoSchema, value: { reason, domain: DOMAIN } };
  const retry = retryAfter === undefined ? [] : [{ desc: RetryInfoSchema, value: { retryDelay: retryAfter } }];
  return fromStatus(new ConnectError(message, code as Code, { "grpc-status": `${code}` }, [info, ...retry]));
}

/** The error for a stream that was silent for too long, or ended. */
export function unavailable(text: string): UnavailableError {
  return new UnavailableError(new ConnectError(text, Code.Unavailable));
}

/** The error of every call of a closed client. */
export function clientClosed(): CallError {
  return new CallError(new ConnectError("the client is closed", Code.Canceled));
}

/** The error for an answer without a part that every coordinator sends. */
export function malformedAnswer(): CallError {
  return new CallError(new ConnectError("the server's answer is incomplete", Code.Internal));
}

function errorInfo(status: ConnectError): ErrorInfo | undefined {
  return status.findDetails(ErrorInfoSchema).find((info) => info.domain === DOMAIN);
}

/**
 * Whether the status was made by this process: the transport failed before the answer was complete. Its code depends on the layer that noticed
 * the failure (ABORTED, CANCELLED, INTERNAL); for a caller, all of these mean the same. A status of a server has at least the headers of its
 * response.
 */
function hasNoAnswer(status: ConnectError): boolean {
  return status.metadata.keys().next().done === true;
}

function connectionLost(status: ConnectError, address: string | undefined): ConnectError {
  const message = systemError(status)?.cause.message ?? status.rawMessage;
  const where = address === undefined ? "" : `${address}: `;
  return new ConnectError(`${where}connection lost: ${message}`, Code.Unavailable, undefined, undefined, status);
}

/** The system error that caused a status of this process, as `cause`. */
function systemError(status: ConnectError): { cause: Error } | undefined {
  let cause: unknown = status;
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause;
  return cause instanceof Error && !(cause instanceof ConnectError) ? { cause } : undefined;
}
