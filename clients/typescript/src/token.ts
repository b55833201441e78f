/**
 * Tokens that are replaced: their source, and when it is called.
 *
 * A source is called for every attempt of a call and for every stream. It is called again while a stream is open: after two thirds of the
 * token's remaining lifetime, if it is a JSON web token, and at least once a minute.
 */
import { readFile } from "node:fs/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { onAbort } from "./abort.js";
import { MAX_TIMEOUT_MS } from "./timers.js";

/** Returns the current token. */
export type TokenSource = () => string | Promise<string>;

const MIN_RENEWAL_DELAY_MS = 1_000;
const MAX_RENEWAL_DELAY_MS = 60_000;

/** Whether the token can be sent: it is not empty, and visible ASCII. */
export function isToken(token: string): boolean {
  return /^[\x21-\x7e]+$/.test(token);
}

/** The value of the header `authorization`. */
export function bearer(token: string): string {
  return `Bearer ${token}`;
}

/**
 * A source that reads the token from a file each time, and strips white space around it. It is read once at a time: a file that does not answer
 * takes one of the few threads of Node, which also resolve names.
 */
export function tokenFile(path: string): TokenSource {
  let reading: Promise<string> | undefined;
  const read = async () => {
    try {
      return (await readFile(path, "utf8")).trim();
    } finally {
      reading = undefined;
    }
  };
  return () => {
    reading ??= read();
    return reading;
  };
}

/** @internal */
export async function currentToken(source: TokenSource): Promise<string> {
  let token: string;
  try {
    token = await source();
  } catch (error) {
    throw noToken(error instanceof Error ? error.message : String(error));
  }
  if (typeof token !== "string" || !isToken(token)) {
    throw noToken("the source gave one that is empty or has other characters than visible ASCII");
  }
  return token;
}

/**
 * Waits for the token of a source at most `ms`, and until one of the signals is aborted.
 *
 * @throws {ConnectError} The source has returned none, or none in time; or a signal was aborted.
 * @internal
 */
export async function tokenWithin(
  ms: number,
  token: Promise<string | undefined>,
  keepsAlive: boolean,
  ...signals: readonly (AbortSignal | undefined)[]
): Promise<string | undefined> {
  let stop: (code: Code, why: string) => void = () => undefined;
  const stopped = new Promise<never>((_, reject) => {
    stop = (code, why) => reject(new ConnectError(why, code));
  });
  const late = () => stop(Code.DeadlineExceeded, `the token source gave no token within ${Math.round(ms)} ms`);
  const timer = setTimeout(late, Math.min(ms, MAX_TIMEOUT_MS));
  if (!keepsAlive) timer.unref();
  const stopListening = onAbort(signals, () => stop(Code.Canceled, "nobody waits for the token"));
  try {
    return await Promise.race([token, stopped]);
  } finally {
    clearTimeout(timer);
    stopListening();
  }
}

function noToken(why: string): ConnectError {
  return new ConnectError(`no token: ${why}`, Code.Unauthenticated);
}

/** The delay until the source is called again. `nowMs`: the wall clock, in milliseconds since the epoch. */
export function renewalDelayMs(token: string, nowMs: number): number {
  const end = endOf(token);
  if (end === undefined) return MAX_RENEWAL_DELAY_MS;
  return Math.min(Math.max(((end * 1_000 - nowMs) * 2) / 3, MIN_RENEWAL_DELAY_MS), MAX_RENEWAL_DELAY_MS);
}

/** The expiry of a JSON web token, in seconds since the epoch; `undefined`: it has none, or is not one. The signature is not checked. */
function endOf(token: string): number | undefined {
  const parts = token.split(".");
  if (parts.length !== 3) return undefined;
  try {
    const claims: unknown = JSON.parse(Buffer.from(parts[1] ?? "", "base64url").toString());
    const end = typeof claims === "object" && claims !== null && "exp" in claims ? claims.exp : undefined;
    return typeof end === "number" ? end : undefined;
  } catch {
    return undefined;
  }
}
