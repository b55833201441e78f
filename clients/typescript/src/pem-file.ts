/**
 * A PEM file with certificates or a key, which may be replaced while the program runs.
 *
 * Only a regular file is read again: opening a pipe would wait for a writer.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import type { Key } from "./config-file.js";
import { ConfigError } from "./errors.js";

/** A certificate, from its first line to its last, or to the end of a truncated file. */
const CERTIFICATE = /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[\s\S]*?(?:-----END [A-Z0-9 ]*CERTIFICATE-----|$)/g;

export class PemFile {
  /** Absolute, so that it names the same file if the program changes its directory. */
  readonly path: string;
  readonly #name: Key;
  readonly #kind: "certificate" | "key";
  /** A pipe has its contents only once, such as that of `<(print-the-authority)`. */
  readonly #isPipe: boolean;
  #contents: Buffer;

  /** @throws {ConfigError} The file cannot be read, or has no usable certificate or key. */
  constructor(name: Key, path: string, kind: "certificate" | "key") {
    this.#name = name;
    this.#kind = kind;
    this.#contents = readPem(name, path);
    check(name, path, kind, this.#contents);
    this.#isPipe = statSync(path, { throwIfNoEntry: false })?.isFile() === false;
    this.path = resolve(path);
  }

  /**
   * What the file contains now.
   *
   * @throws {ConfigError} As in the constructor; or it is not a regular file any more.
   */
  read(): Buffer {
    if (this.#isPipe) return this.#contents;
    const contents = readPem(this.#name, this.path, "regular");
    if (!contents.equals(this.#contents)) check(this.#name, this.path, this.#kind, contents);
    this.#contents = contents;
    return contents;
  }
}

function readPem(name: Key, path: string, kind?: "regular"): Buffer {
  let contents: Buffer;
  try {
    if (kind === "regular" && !statSync(path).isFile()) throw new Error(`${path} is not a regular file`);
    contents = readFileSync(path);
  } catch (error) {
    throw new ConfigError(`${name}: ${error instanceof Error ? error.message : error}`);
  }
  if (!contents.includes("-----BEGIN ")) throw new ConfigError(`${name}: ${path} is no PEM file`);
  return contents;
}

function check(name: Key, path: string, kind: "certificate" | "key", contents: Buffer): void {
  try {
    if (kind === "key") createPrivateKey(contents);
    else checkCertificates(contents);
  } catch (error) {
    throw new ConfigError(`${name}: ${path} has no usable ${kind}: ${error instanceof Error ? error.message : error}`);
  }
}

/** Checks every certificate of a file: Node itself silently stops at the first one that it does not understand. */
function checkCertificates(contents: Buffer): void {
  // Other contents of the file, for example a key, are ignored.
  const certificates = contents.toString("latin1").match(CERTIFICATE) ?? [""];
  for (const certificate of certificates) new X509Certificate(certificate);
}
