import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { Code, ConnectError } from "@connectrpc/connect";
import * as errors from "../../src/errors.js";
import { checkThreadId } from "../../src/fields.js";
import { ErrorInfoSchema } from "../../src/gen/google/rpc/error_details_pb.js";
import { durationToWire } from "../../src/messages.js";
import { limited, retryInfo } from "../support/limited.js";

function refused(code: Code, reason: string, domain = "pausewatch"): ConnectError {
  const info = { desc: ErrorInfoSchema, value: { reason, domain, metadata: { thread_id: "t" } } };
  return new ConnectError("in words", code, { "grpc-status": `${code}` }, [info]);
}

test("classes follow the reason, not the code or text", () => {
  const error = errors.fromStatus(refused(Code.NotFound, "ELICITATION_EXPIRED"));
  assert.ok(error instanceof errors.ElicitationExpiredError && error instanceof errors.PausewatchError);
  assert.deepEqual(
    [error.name, error.message, error.code, error.reason, error.metadata, error.transient],
    ["ElicitationExpiredError", "in words", Code.NotFound, "ELICITATION_EXPIRED", { thread_id: "t" }, false],
  );
  const foreign = errors.fromStatus(refused(Code.NotFound, "ELICITATION_EXPIRED", "example.com"));
  assert.deepEqual([foreign.name, foreign.reason], ["CallError", undefined]);
  assert.equal(errors.fromStatus(refused(Code.NotFound, "constructor")).name, "CallError");
});

test("every reason has its class", () => {
  for (const [reason, known] of [
    ["INVALID_FIELD", errors.InvalidFieldError],
    ["REQUEST_ID_REUSED", errors.RequestIdReusedError],
    ["NO_OUTSTANDING_ELICITATION", errors.NoOutstandingElicitationError],
    ["ELICITATION_UNKNOWN", errors.ElicitationUnknownError],
    ["ELICITATION_RELEASED", errors.ElicitationReleasedError],
    ["ELICITATION_EXPIRED", errors.ElicitationExpiredError],
    ["TOO_MANY_ELICITATIONS", errors.TooManyElicitationsError],
    ["LIMIT_EXCEEDED", errors.LimitExceededError],
    ["STORE_UNAVAILABLE", errors.StoreUnavailableError],
  ] as const) {
    assert.equal(errors.fromStatus(refused(Code.Unknown, reason)).constructor, known);
  }
});

test("token errors have classes of their own", () => {
  const expired = errors.fromStatus(refused(Code.Unauthenticated, "TOKEN_EXPIRED"));
  assert.ok(expired instanceof errors.UnauthenticatedError && !expired.transient);
  const forbidden = errors.fromStatus(refused(Code.PermissionDenied, "THREAD_FORBIDDEN"));
  assert.deepEqual([forbidden.name, forbidden.reason], ["PermissionDeniedError", "THREAD_FORBIDDEN"]);
});

test("an unavailable store and a lost connection have different classes, and both are transient", () => {
  const store = errors.fromStatus(refused(Code.Unavailable, "STORE_UNAVAILABLE"));
  assert.ok(store instanceof errors.StoreUnavailableError && store.transient);
  const draining = errors.fromStatus(new ConnectError("draining", Code.Unavailable, { "grpc-status": "14" }));
  assert.ok(draining instanceof errors.UnavailableError && draining.transient);
  const reset = new ConnectError(
    "http/2 stream closed",
    Code.Aborted,
    undefined,
    undefined,
    new Error("read ECONNRESET"),
  );
  const lost = errors.fromStatus(reset);
  assert.ok(lost instanceof errors.UnavailableError);
  assert.deepEqual([lost.code, lost.message], [Code.Unavailable, "connection lost: read ECONNRESET"]);
  const own = errors.fromStatus(new ConnectError("the server's own words", Code.Internal, { "grpc-status": "13" }));
  assert.deepEqual([own.name, own.transient], ["CallError", false]);
});

test("a limit error has its name and retry delay", () => {
  const cases = [
    [undefined, undefined],
    [new Uint8Array(), undefined],
    [retryInfo({}), 0],
    [retryInfo({ nanos: 20_000_000 }), 20],
    [retryInfo({ seconds: 61n }), 61_000],
    [retryInfo({ seconds: -1n }), 0],
    // A field of a newer server before it: 2, a number.
    [Uint8Array.of(0x10, 0x07, ...retryInfo({ seconds: 2n })), 2_000],
    // Broken: longer than what is there.
    [Uint8Array.of(0x0a, 0x7f), undefined],
  ] as const;
  for (const [retry, after] of cases) {
    const error = errors.fromStatus(limited("streams-per-caller", retry));
    assert.ok(error instanceof errors.LimitExceededError);
    assert.deepEqual(
      [error.name, error.limit, error.retryAfterMs],
      ["LimitExceededError", "streams-per-caller", after],
    );
    assert.deepEqual([error.code, error.message], [Code.ResourceExhausted, "in words"]);
  }
});

test("only a limit of calls per second is transient, and waited for", () => {
  for (const limit of ["calls-per-second", "calls-per-second-per-caller"]) {
    const error = errors.fromStatus(limited(limit, retryInfo({ nanos: 20_000_000 })));
    assert.deepEqual([error.transient, errors.rateLimitDelayMs(error)], [true, 20]);
    assert.equal(errors.rateLimitDelayMs(errors.fromStatus(limited(limit))), 1_000);
  }
  for (const limit of ["open-elicitations-per-caller", "streams", ""]) {
    const error = errors.fromStatus(limited(limit, retryInfo({ nanos: 20_000_000 })));
    assert.deepEqual([error.transient, errors.rateLimitDelayMs(error)], [false, undefined]);
  }
  assert.equal(errors.rateLimitDelayMs(errors.unavailable("nobody")), undefined);
});

test("an error prints its message and fields, and no descriptor of the proto", () => {
  const printed = inspect(errors.invalidField("thread_id", "thread_id is empty"));
  assert.match(printed, /InvalidFieldError: thread_id is empty/);
  assert.doesNotMatch(printed, /\bdesc\b|typeName|ConnectError/);
  const reset = new Error("read ECONNRESET");
  const lost = errors.fromStatus(new ConnectError("aborted", Code.Aborted, undefined, undefined, reset));
  assert.equal(lost.cause, reset, "what the system said");
});

test("a refusal of the library reads like that of the server", () => {
  const made = errors.invalidField("thread_id", "thread_id is empty");
  const read = errors.fromStatus(errors.CallError.statusOf(made));
  assert.ok(read instanceof errors.InvalidFieldError);
  assert.deepEqual([read.field, read.description, read.reason], ["thread_id", "thread_id is empty", "INVALID_FIELD"]);
});

test("an invalid thread id is refused by the library, its valid neighbours are not", () => {
  for (const good of ["t", "x".repeat(256), "é".repeat(128), "日本語 🙂", "a b", "\u00a0"]) checkThreadId(good);
  for (const bad of ["", "x".repeat(257), "é".repeat(129), "a\u0007b", "a\u0085b", "\ud800", "a\udc00"]) {
    assert.throws(() => checkThreadId(bad), { name: "InvalidFieldError", field: "thread_id" }, JSON.stringify(bad));
  }
  assert.throws(() => checkThreadId(undefined as never), { name: "InvalidFieldError" });
});

test("a duration too large for the message is refused by the library, others by the server", () => {
  assert.deepEqual(durationToWire("ttl", 1_500.25), { seconds: 1n, nanos: 500_250_000 });
  assert.deepEqual(durationToWire("ttl", -1_500), { seconds: -1n, nanos: -500_000_000 });
  for (const ms of [Number.NaN, Number.POSITIVE_INFINITY, 1e30]) {
    assert.throws(() => durationToWire("ttl", ms), { name: "InvalidFieldError", field: "ttl" });
  }
});
