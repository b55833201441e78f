/**
 * Tokens, and where they come from.
 *
 * A source is asked for every attempt of a call and for every stream, and again while a stream is open: after two thirds of what is left of the
 * token's life, if it is a JSON web token, and at least once a minute.
 */
import { readFile } from "node:fs/promises";
import { Code, ConnectError } from "@connectrpc/connect";

/** Gives the token as it is now. */
export type TokenSource = () => string | Promise<string>;

const SHORTEST_MS = 1_000;
const LONGEST_MS = 60_000;

/** Whether it can be sent. */
export function isToken(token: string): boolean {
  return /^[\x21-\x7e]+$/.test(token);
}

/** A source that reads a file each time; white space around the token does not count. */
export function tokenFile(path: string): TokenSource {
  return async () => (await readFile(path, "utf8")).trim();
}

/** @internal */
export async function askForToken(source: TokenSource): Promise<string> {
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

function noToken(why: string): ConnectError {
  return new ConnectError(`no token: ${why}`, Code.Unauthenticated);
}

/** When to ask for the next token. `nowMs`: the time of day. */
export function askAgainAfterMs(token: string, nowMs: number): number {
  const end = endOf(token);
  if (end === undefined) return LONGEST_MS;
  return Math.min(Math.max(((end * 1_000 - nowMs) * 2) / 3, SHORTEST_MS), LONGEST_MS);
}

/** When a JSON web token ends that says so, in seconds; its signature is not checked. */
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
