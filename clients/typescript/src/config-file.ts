/**
 * The config file.
 *
 * 1. A file that was named must exist; the default one may be missing, or in the home of another user.
 * 2. An unknown key is an error, which has its name and line: a typing mistake must not silently select the default.
 * 3. No value except an address is quoted in an error: one of the values is a token.
 */
import { readFileSync, statSync } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";
import { parse, TomlError } from "smol-toml";
import { parseAddress } from "./address.js";
import { ConfigError, within } from "./errors.js";
import type { Log } from "./log.js";

export const KEYS = ["address", "thread_id", "token", "tls_ca", "tls_cert", "tls_key"] as const;
/** The server's section of the file, which clients ignore. */
const SERVER = "serve";
export type Key = (typeof KEYS)[number];
/** The settings of a config file. */
export type Values = { readonly [key in Key]?: string };
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the file `named`, else that of `PAUSEWATCH_CONFIG`, else the default one.
 *
 * @throws {ConfigError} A named file cannot be read, or the file is not valid: the text has the file and the line.
 */
export function loadConfigFile(named: string | undefined, environment: Environment, log: Log): Values {
  const required = named || environment.PAUSEWATCH_CONFIG;
  const directory = required ? undefined : defaultDirectory(environment);
  const path = required || (directory && join(directory, "pausewatch", "config.toml"));
  if (!path) return {};
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    const why = error instanceof Error ? error.message : error;
    // A HOME of /dev/null is no directory.
    if (directory && ["ENOENT", "ENOTDIR"].includes(code)) return {};
    if (directory && code === "EACCES" && isOfAnotherUser(directory)) {
      const advice = `${directory} belongs to another user; correct HOME or XDG_CONFIG_HOME`;
      log.warn(`config file ${path} is ignored: ${why}, and ${advice}`, "PAUSEWATCH_CONFIG");
      return {};
    }
    throw new ConfigError(`config file ${path}: ${why}`);
  }
  return within(`config file ${path}`, () => parseConfigFile(text));
}

/** The first of these that can be seen decides: the directory, or one above it; some may be hidden or missing. */
function isOfAnotherUser(directory: string): boolean {
  const user = process.geteuid?.();
  if (user === undefined) return false;
  try {
    return statSync(directory).uid !== user;
  } catch {
    const above = dirname(directory);
    return above === directory || isOfAnotherUser(above);
  }
}

/** @throws {ConfigError} The text is not valid; the message has the line. */
export function parseConfigFile(text: string): Values {
  const values: { [key in Key]?: string } = {};
  for (const [key, value] of Object.entries(parseToml(text))) {
    if (key === SERVER) continue;
    const line = `line ${lineOf(key, text)}`;
    const wrong = (why: string) => new ConfigError(`${line}: ${why}`);
    if (!isKey(key))
      throw wrong(`unknown field \`${key}\`, expected ${KEYS.map((known) => `\`${known}\``).join(", ")}`);
    if (typeof value !== "string") throw wrong(`\`${key}\` must be a string`);
    if (key === "address" && value !== "") within(line, () => parseAddress(value));
    values[key] = value;
  }
  return values;
}

function parseToml(text: string): Record<string, unknown> {
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    // The rest of the message shows the lines around the error.
    const [why = ""] = error.message.split("\n");
    throw new ConfigError(`line ${error.line}: ${why.replace(/^Invalid TOML document: /, "")}`);
  }
}

function isKey(key: string): key is Key {
  return (KEYS as readonly string[]).includes(key);
}

/** The line of a top-level key: a bare or quoted key, or a table of that name. */
function lineOf(key: string, text: string): number {
  const escaped = key.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const place = text.search(new RegExp(`^[ \\t]*(\\[+[ \\t]*)?["']?${escaped}["']?[ \\t]*[=.\\]]`, "m"));
  return text.slice(0, Math.max(place, 0)).split("\n").length;
}

/** The directory of the config files of all programs. */
function defaultDirectory(environment: Environment): string | undefined {
  const { XDG_CONFIG_HOME: xdg, HOME: home } = environment;
  // The XDG base directory specification says that a relative path must be ignored.
  return xdg && isAbsolute(xdg) ? xdg : home && join(home, ".config");
}
