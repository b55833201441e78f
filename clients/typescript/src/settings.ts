/**
 * Which coordinator, which thread, and how to be let in.
 *
 * 1. An option wins over the environment, that over the config file, each by itself.
 * 2. What is set and empty counts as not set. The thread's variables are `THREAD_VARIABLES`: its own first, then those that agents set for
 *    their commands.
 * 3. A token is sent in plain text to nobody but this machine, and its value is in no message.
 * 4. What is for TLS stays there: an address in plain text that goes over settings for TLS (an https address, or files) has nothing of
 *    theirs but the thread. They are another coordinator's.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import type { SecureContextOptions } from "node:tls";
import { type Address, DEFAULT_ADDRESS, formatAddress, isLocal, isSecure, parseAddress } from "./address.js";
import { type Environment, type Key, loadConfigFile } from "./config-file.js";
import { ConfigError, within } from "./errors.js";
import { isToken, type TokenSource, tokenFile } from "./token.js";

/** How a client connects. What is absent, or empty, is taken from the next source, and at last has its default. */
export interface ConnectionOptions {
  /** `host:port`, `http://…`, `https://…` or `unix:PATH`. Default: `127.0.0.1:7420`. */
  readonly address?: string | undefined;
  /** The thread of calls that name none. Default: none. */
  readonly threadId?: string | undefined;
  /**
   * Sent with every call. Only over https, a Unix socket, or to this machine. A function gives the token as it is now, for one that ends and is
   * replaced before: it is asked for every attempt of a call, and again while a watch or a timeout is open (at least once a minute), whose
   * stream goes on with the new token. What it throws ends the call with {@link UnauthenticatedError}. It keeps what it got from elsewhere.
   */
  readonly token?: string | TokenSource | undefined;
  /** A PEM file with the authorities to trust, instead of those that Node trusts. Only with https. */
  readonly tlsCa?: string | undefined;
  /** A PEM file with the certificate of this program; with `tlsKey`, and only with https. */
  readonly tlsCert?: string | undefined;
  /** A PEM file with the key to `tlsCert`. */
  readonly tlsKey?: string | undefined;
}

/** What a client is made from. */
export interface Settings {
  readonly address: Address;
  readonly threadId: string | undefined;
  readonly token: string | TokenSource | undefined;
  /** The contents of the PEM files, or what the program has given instead. */
  readonly tls: SecureContextOptions;
}

const NAMES: Readonly<Record<keyof ConnectionOptions, Key>> = {
  address: "address",
  threadId: "thread_id",
  token: "token",
  tlsCa: "tls_ca",
  tlsCert: "tls_cert",
  tlsKey: "tls_key",
};
/** Where the environment names the thread; the first that is set and not empty counts. */
const THREAD_VARIABLES = ["PAUSEWATCH_THREAD_ID", "CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID"];
/** Names a file with the token, which is read each time. */
const TOKEN_FILE = "PAUSEWATCH_TOKEN_FILE";
/** From its first line to its last, or to the end of a file that was cut off. */
const CERTIFICATE = /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[\s\S]*?(?:-----END [A-Z0-9 ]*CERTIFICATE-----|$)/g;
const OPTIONS = Object.keys(NAMES) as (keyof ConnectionOptions)[];

/**
 * The options, and what environment and config file say where they say nothing.
 *
 * @throws {ConfigError} One of them is wrong; the text says which.
 */
export function withEnvironment(
  options: ConnectionOptions,
  configFile: string | undefined,
  environment: Environment,
): ConnectionOptions {
  const file = loadConfigFile(configFile, environment);
  const variables = layer((option) => {
    const names = option === "threadId" ? THREAD_VARIABLES : [variableOf(option)];
    const value = names.map((name) => environment[name]).find(Boolean);
    if (option !== "token" || !environment[TOKEN_FILE]) return value;
    if (value) throw new ConfigError(`${variableOf("token")} and ${TOKEN_FILE} are both set: set one of them`);
    return tokenFile(environment[TOKEN_FILE]);
  });
  const { address } = variables;
  if (address && options.address === undefined) within(variableOf("address"), () => parseAddress(address));
  const given = layer((option) => options[option]);
  return over(
    over(given, variables),
    layer((option) => file[NAMES[option]] || undefined),
  );
}

function variableOf(option: keyof ConnectionOptions): string {
  return `PAUSEWATCH_${NAMES[option].toUpperCase()}`;
}

/** What one source says. */
function layer(say: (option: keyof ConnectionOptions) => string | TokenSource | undefined): ConnectionOptions {
  return Object.fromEntries(OPTIONS.map((option) => [option, say(option)]));
}

/** Each setting of `upper`, or if it has none, that of `lower`. */
function over(upper: ConnectionOptions, lower: ConnectionOptions): ConnectionOptions {
  const isPlain = upper.address !== undefined && !isEncrypted(upper);
  const isForTls = isEncrypted(lower) || lower.tlsCa || lower.tlsCert || lower.tlsKey;
  const below: ConnectionOptions = isPlain && isForTls ? { threadId: lower.threadId } : lower;
  return layer((option) => upper[option] ?? below[option]);
}

function isEncrypted({ address }: ConnectionOptions): boolean {
  return address?.startsWith("https://") ?? false;
}

/**
 * What the options say.
 *
 * @throws {ConfigError} They are wrong, or a file that they name cannot be read or has no certificate or key that can be used.
 */
export function settingsOf(options: ConnectionOptions, secure?: SecureContextOptions): Settings {
  const { token } = options;
  const address = parseAddress(options.address ?? DEFAULT_ADDRESS);
  if (token !== undefined) checkToken(token, address);
  const tls = readTls(options, address);
  if (secure !== undefined) {
    const where = formatAddress(address);
    if (!isSecure(address)) throw new ConfigError(`tls: the address ${where} is plain text; use an https:// address`);
    if (Object.keys(tls).length > 0) throw new ConfigError("tls, and TLS files are given: give one of them");
  }
  return { address, threadId: options.threadId || undefined, token, tls: secure ?? tls };
}

/** The TLS files that these options name, and no others. */
export function tlsFilesOf({ tlsCa, tlsCert, tlsKey }: ConnectionOptions): ConnectionOptions {
  return { tlsCa, tlsCert, tlsKey };
}

function checkToken(token: string | TokenSource, address: Address): void {
  if (typeof token === "string" && !isToken(token)) {
    throw new ConfigError("token: it has characters that no header can carry; allowed: visible ASCII without spaces");
  }
  if (isSecure(address) || isLocal(address)) return;
  const where = formatAddress(address);
  throw new ConfigError(`token: it would go to ${where} in plain text; use https://${where}, or remove the token`);
}

function readTls(options: ConnectionOptions, address: Address): Settings["tls"] {
  const { tlsCa: ca, tlsCert: cert, tlsKey: key } = options;
  const given = (["tlsCa", "tlsCert", "tlsKey"] as const).find((option) => options[option]);
  if (given !== undefined && !isSecure(address)) {
    const [name, where] = [NAMES[given], formatAddress(address)];
    throw new ConfigError(`${name}: the address ${where} is plain text; use an https:// address, or remove ${name}`);
  }
  if (cert && !key) throw new ConfigError("tls_cert without tls_key: give both, or none");
  if (key && !cert) throw new ConfigError("tls_key without tls_cert: give both, or none");
  return {
    ...(ca ? { ca: readCertificates("tls_ca", ca) } : {}),
    ...(cert ? { cert: readCertificates("tls_cert", cert) } : {}),
    ...(key ? { key: readKey("tls_key", key) } : {}),
  };
}

/** Node itself reads a file up to the first certificate that it does not understand, and says nothing. */
function readCertificates(name: Key, path: string): Buffer {
  const contents = readPem(name, path);
  // Whatever else is in the file, a key for example, is passed over.
  const certificates = contents.toString("latin1").match(CERTIFICATE) ?? [""];
  for (const certificate of certificates) usable(name, path, "certificate", () => new X509Certificate(certificate));
  return contents;
}

function readKey(name: Key, path: string): Buffer {
  const contents = readPem(name, path);
  usable(name, path, "key", () => createPrivateKey(contents));
  return contents;
}

function usable(name: Key, path: string, what: string, read: () => unknown): void {
  try {
    read();
  } catch (error) {
    throw new ConfigError(`${name}: ${path} has no usable ${what}: ${error instanceof Error ? error.message : error}`);
  }
}

function readPem(name: Key, path: string): Buffer {
  let contents: Buffer;
  try {
    contents = readFileSync(path);
  } catch (error) {
    throw new ConfigError(`${name}: ${error instanceof Error ? error.message : error}`);
  }
  if (!contents.includes("-----BEGIN ")) throw new ConfigError(`${name}: ${path} is no PEM file`);
  return contents;
}
