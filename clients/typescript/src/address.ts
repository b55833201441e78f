/**
 * The address of a coordinator, as one string.
 *
 * `host:port`, `http://host[:port]`, `https://host[:port]`, `unix:PATH` (also `unix:///PATH`). A host is a name of ASCII letters, digits, `-`,
 * `_` and `.`, an IPv4 address, or an IPv6 address in brackets and without a zone. Several replicas: their addresses, separated by commas. An
 * address that is printed and parsed again is equal.
 */
import { isIPv6 } from "node:net";
import { ConfigError } from "./errors.js";

/** The address that a coordinator listens on by default. */
export const DEFAULT_ADDRESS = "127.0.0.1:7420";

/** The maximum number of addresses: far more than useful replicas. */
const MAX_ADDRESSES = 16;

export type Address =
  | OneAddress
  /** The addresses of several replicas: 2 to 16 different ones, all with TLS or all without. */
  | { readonly kind: "several"; readonly each: readonly OneAddress[] };

export type OneAddress =
  /** `host`: without the brackets of an IPv6 address. */
  | { readonly kind: "tcp"; readonly host: string; readonly port: number; readonly tls: boolean }
  /** A relative path starts at the working directory at the time of each connect. */
  | { readonly kind: "unix"; readonly path: string };

const FORMS = "write host:port, http://host:port, https://host:port or unix:PATH";
const DEFAULT_PORTS: ReadonlyMap<string | undefined, number> = new Map([
  ["http", 80],
  ["https", 443],
]);

/**
 * Parses an address.
 *
 * @throws {ConfigError} The text is not a valid address; the message quotes it and says what is wrong.
 */
export function parseAddress(text: string): Address {
  // The path of a Unix socket may have commas: replicas are on several machines, so it is never a list.
  return text.includes(",") && !text.startsWith("unix:") ? parseList(text) : parseOne(text);
}

function parseList(text: string): Address {
  const malformed = (problem: string) => new ConfigError(`address ${JSON.stringify(text)}: ${problem}; ${FORMS}`);
  const entries = text.split(",");
  if (entries.length > MAX_ADDRESSES)
    throw malformed(`it has ${entries.length} addresses; allowed: up to ${MAX_ADDRESSES}`);
  const each = new Map<string, OneAddress>();
  for (const entry of entries) {
    if (entry === "") throw malformed("an entry of the list is empty");
    if (entry.startsWith("unix:")) throw malformed("a list has no unix: address");
    const address = parseOne(entry);
    const short = formatAddress(address);
    if (each.has(short)) throw malformed(`${short} is named twice`);
    each.set(short, address);
  }
  if (new Set([...each.values()].map(isSecure)).size > 1)
    throw malformed("either all addresses of a list begin with https://, or none");
  return { kind: "several", each: [...each.values()] };
}

/** The address of each replica; the address itself if there is one. */
export function eachAddress(address: Address): readonly OneAddress[] {
  return address.kind === "several" ? address.each : [address];
}

/** Whether connections to the address are encrypted. */
export function isSecure(address: Address): boolean {
  return eachAddress(address).every((one) => one.kind === "tcp" && one.tls);
}

function parseOne(text: string): OneAddress {
  const quoted = JSON.stringify(text);
  const malformed = (problem: string) => new ConfigError(`address ${quoted}: ${problem}; ${FORMS}`);
  if (text.startsWith("unix:")) return { kind: "unix", path: parsePath(text.slice("unix:".length), malformed) };

  const [, scheme, rest = ""] = /^(?:(.*?):\/\/)?(.*)$/s.exec(text) ?? [];
  const defaultPort = DEFAULT_PORTS.get(scheme);
  if (scheme !== undefined && defaultPort === undefined) {
    throw malformed(`the scheme ${JSON.stringify(scheme)} is unknown`);
  }
  const bare = scheme === undefined ? rest : rest.replace(/\/$/, "");
  if (bare === "") throw malformed("the host is missing");
  if (/[/?#@]/.test(bare)) throw malformed("there is more in it than a host and a port");

  const [, bracketed, plain, portText] = /^(?:\[([^\]]*)\]|([^:]*))(?::(.*))?$/s.exec(bare) ?? [];
  const host = bracketed ?? plain;
  if (!host) throw malformed("the host is missing");
  const valid = bracketed === undefined ? isName(host) : isIPv6(host) && !host.includes("%");
  if (!valid) throw malformed("the host is no name and no IP address");
  if (portText === undefined && defaultPort === undefined) {
    throw new ConfigError(`address ${quoted}: the port is missing; write host:port, for example ${DEFAULT_ADDRESS}`);
  }
  const port = portText === undefined ? defaultPort : parsePort(portText);
  if (port === undefined) throw malformed("the port is not a number from 1 to 65535");
  return { kind: "tcp", host, port, tls: scheme === "https" };
}

/** The short form that {@link parseAddress} reads. */
export function formatAddress(address: Address): string {
  if (address.kind === "several") return address.each.map(formatAddress).join(",");
  if (address.kind === "unix") return `unix:${address.path}`;
  return `${address.tls ? "https://" : ""}${authority(address)}`;
}

/** `host:port`, as a URL has it. */
export function authority({ host, port }: { host: string; port: number }): string {
  return `${isIPv6(host) ? `[${host}]` : host}:${port}`;
}

/** Whether `host` is a valid name or IPv4 address. Every call needs a URL, in which an invalid IPv4 address (`256.1.1.1`) is an error. */
function isName(host: string): boolean {
  return /^[A-Za-z0-9_.-]+$/.test(host) && URL.canParse(`http://${host}`);
}

/** Whether connections to the address stay on this machine. */
export function isLocal(address: Address): boolean {
  return eachAddress(address).every(
    (one) => one.kind === "unix" || /^(localhost|::1|127(\.\d{1,3}){3})$/i.test(one.host),
  );
}

function parsePath(text: string, malformed: (problem: string) => ConfigError): string {
  // unix:///PATH has an empty host, like file:///PATH; unix://HOST/PATH would mean another machine.
  const path = text.startsWith("//") ? text.slice(2) : text;
  if (path !== text && !path.startsWith("/")) throw malformed("unix:// must be followed by an absolute path");
  if (path === "") throw malformed("the path is missing");
  if (path.includes("\0")) throw malformed("a path has no NUL");
  return path;
}

function parsePort(text: string): number | undefined {
  const port = /^[1-9]\d{0,4}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65_535 ? port : undefined;
}
