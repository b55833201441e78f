/**
 * TLS with certificates in files, which are read again for each connection, so that renewed certificates are used.
 *
 * 1. While a file cannot be used, for example during its replacement, the last good certificates are used.
 * 2. An open connection is not touched.
 */
import { createSecureContext, type SecureContext, type SecureContextOptions } from "node:tls";
import { isDeepStrictEqual } from "node:util";
import { ConfigError } from "./errors.js";
import type { Log } from "./log.js";
import { PemFile } from "./pem-file.js";

export class TlsFiles {
  readonly #files: Partial<Record<"ca" | "cert" | "key", PemFile>>;

  /** @throws {ConfigError} A file cannot be read, or has no usable certificate or key. */
  constructor(ca: string | undefined, cert: string | undefined, key: string | undefined) {
    this.#files = {
      ...(ca ? { ca: new PemFile("tls_ca", ca, "certificate") } : {}),
      ...(cert ? { cert: new PemFile("tls_cert", cert, "certificate") } : {}),
      ...(key ? { key: new PemFile("tls_key", key, "key") } : {}),
    };
  }

  get paths(): string {
    const files = Object.values(this.#files);
    return files.map(({ path }) => path).join(", ");
  }

  /**
   * What the files contain now.
   *
   * @throws {ConfigError} As in the constructor.
   */
  read(): SecureContextOptions {
    const { ca, cert, key } = this.#files;
    return { ca: ca?.read(), cert: cert?.read(), key: key?.read() };
  }
}

/**
 * Returns a function that returns the TLS context of the next connection. With TLS options of the program, the context
 * is always the same.
 *
 * @throws {ConfigError} The certificates or the key are not valid.
 */
export function secureContexts(tls: TlsFiles | SecureContextOptions, log: Log): () => SecureContext {
  if (!(tls instanceof TlsFiles)) {
    const context = contextOf(tls);
    return () => context;
  }
  let good = tls.read();
  let context = contextOf(good);
  let problem: string | undefined;
  return () => {
    try {
      const newest = tls.read();
      if (!isDeepStrictEqual(newest, good)) context = contextOf(newest, ` (${tls.paths})`);
      good = newest;
      problem = undefined;
    } catch (error) {
      const { message } = error as ConfigError;
      const advice = "still using the last good certificates. Fix the file: it is read for each connection";
      if (message !== problem) log.warn(`${message}; ${advice}`, "PAUSEWATCH_TLS");
      problem = message;
    }
    return context;
  };
}

function contextOf(options: SecureContextOptions, paths = ""): SecureContext {
  try {
    return createSecureContext({ ...options, minVersion: "TLSv1.2" });
  } catch (error) {
    throw new ConfigError(`tls_ca, tls_cert, tls_key${paths}: ${error instanceof Error ? error.message : error}`);
  }
}
