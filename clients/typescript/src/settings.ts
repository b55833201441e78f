/**
 * The settings of a client: the coordinator, the thread, the token and TLS.
 *
 * 1. An option overrides the environment, which overrides the config file, for each setting separately.
 * 2. An empty value counts as not set. The variables for the thread are `THREAD_VARIABLES`: first pausewatch's own, then those that agents set
 *    for their commands.
 * 3. A token is sent in plain text only to this machine, and its value is in no message.
 * 4. A plaintext address overrides TLS settings (an https address, or files) of the lower layers completely: nothing of these layers is used
 *    but the thread. They belong to another coordinator.
 */
import type { SecureContextOptions } from "node:tls";
import { type Address, DEFAULT_ADDRESS, formatAddress, isLocal, isSecure, parseAddress } from "./address.js";
import { type Environment, type Key, loadConfigFile } from "./config-file.js";
import { ConfigError, within } from "./errors.js";
import { Log } from "./log.js";
import { TlsFiles } from "./tls-files.js";
import { isToken, type TokenSource, tokenFile } from "./token.js";

/** How a client connects. An absent setting is taken from the next source; if no source has it, the default is used. */
export interface ConnectionOptions {
  /** `host:port`, `http://…`, `https://…` or `unix:PATH`. Default: `127.0.0.1:7420`. */
  readonly address?: string | undefined;
  /** The default thread of calls. Default: none. */
  readonly threadId?: string | undefined;
  /**
   * The token, sent with every call. Only over https, a Unix socket, or to this machine. A function returns the current token, for a token that
   * is replaced before it expires. It is called for every attempt of a call, and again while a watch or a timeout is open (at least once a
   * minute); the stream then continues with the new token. If it throws, the call throws {@link UnauthenticatedError}. Tokens are not cached:
   * if fetching one is slow, the function should cache it.
   */
  readonly token?: string | TokenSource | undefined;
  /**
   * A PEM file with the certificate authorities to trust, instead of those of Node.js. Only with https. The TLS files are read again for each
   * connection.
   */
  readonly tlsCa?: string | undefined;
  /** A PEM file with the client certificate; together with `tlsKey`, and only with https. */
  readonly tlsCert?: string | undefined;
  /** A PEM file with the private key of `tlsCert`. */
  readonly tlsKey?: string | undefined;
}

/** The complete settings of a client. */
export interface Settings {
  readonly address: Address;
  readonly threadId: string | undefined;
  readonly token: string | TokenSource | undefined;
  /** The PEM files, or the TLS options of the program. */
  readonly tls: TlsFiles | SecureContextOptions;
}

const NAMES: Readonly<Record<keyof ConnectionOptions, Key>> = {
  address: "address",
  threadId: "thread_id",
  token: "token",
  tlsCa: "tls_ca",
  tlsCert: "tls_cert",
  tlsKey: "tls_key",
};
/** The variables that name the thread; the first that is not empty is used. */
const THREAD_VARIABLES = ["PAUSEWATCH_THREAD_ID", "CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID"];
/** The variable that names a file with the token, which is read each time. */
const TOKEN_FILE = "PAUSEWATCH_TOKEN_FILE";
const OPTIONS = Object.keys(NAMES) as (keyof ConnectionOptions)[];

/**
 * The options, completed by the environment and the config file.
 *
 * @throws {ConfigError} A setting is not valid; the text says which.
 */
export function withEnvironment(
  options: ConnectionOptions,
  configFile: string | undefined,
  environment: Environment,
  log = new Log(undefined),
): ConnectionOptions {
  const file = loadConfigFile(configFile, environment, log);
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
  return merged(
    merged(given, variables),
    layer((option) => file[NAMES[option]] || undefined),
  );
}

function variableOf(option: keyof ConnectionOptions): string {
  return `PAUSEWATCH_${NAMES[option].toUpperCase()}`;
}

/** The settings of one source. */
function layer(read: (option: keyof ConnectionOptions) => string | TokenSource | undefined): ConnectionOptions {
  return Object.fromEntries(OPTIONS.map((option) => [option, read(option)]));
}

/** Merges two layers: the settings of `upper` override those of `lower`. */
function merged(upper: ConnectionOptions, lower: ConnectionOptions): ConnectionOptions {
  const isPlain = upper.address !== undefined && !isEncrypted(upper);
  const isForTls = isEncrypted(lower) || lower.tlsCa || lower.tlsCert || lower.tlsKey;
  const below: ConnectionOptions = isPlain && isForTls ? { threadId: lower.threadId } : lower;
  return layer((option) => upper[option] ?? below[option]);
}

function isEncrypted({ address }: ConnectionOptions): boolean {
  return address?.startsWith("https://") ?? false;
}

/**
 * The settings of the options.
 *
 * @throws {ConfigError} An option is not valid, or a file cannot be read or has no usable certificate or key.
 */
export function settingsOf(options: ConnectionOptions, secure?: SecureContextOptions): Settings {
  const { token } = options;
  const address = parseAddress(options.address ?? DEFAULT_ADDRESS);
  if (token !== undefined) checkToken(token, address);
  const files = tlsFiles(options, address);
  if (secure !== undefined) {
    const where = formatAddress(address);
    if (!isSecure(address)) throw new ConfigError(`tls: the address ${where} is plain text; use an https:// address`);
    if (files !== undefined) throw new ConfigError("tls, and TLS files are given: give one of them");
  }
  return { address, threadId: options.threadId || undefined, token, tls: secure ?? files ?? {} };
}

/** Only the TLS files of these options. */
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

function tlsFiles(options: ConnectionOptions, address: Address): TlsFiles | undefined {
  const given = (["tlsCa", "tlsCert", "tlsKey"] as const).find((option) => options[option]);
  if (given === undefined) return undefined;
  if (!isSecure(address)) {
    const [name, where] = [NAMES[given], formatAddress(address)];
    throw new ConfigError(`${name}: the address ${where} is plain text; use an https:// address, or remove ${name}`);
  }
  const { tlsCa, tlsCert, tlsKey } = options;
  if (tlsCert && !tlsKey) throw new ConfigError("tls_cert without tls_key: give both, or none");
  if (tlsKey && !tlsCert) throw new ConfigError("tls_key without tls_cert: give both, or none");
  return new TlsFiles(tlsCa, tlsCert, tlsKey);
}
