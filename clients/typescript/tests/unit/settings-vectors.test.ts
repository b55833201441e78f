import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { inspect } from "node:util";
import { formatAddress } from "../../src/address.js";
import { ConfigError } from "../../src/errors.js";
import { type ConnectionOptions, settingsOf, withEnvironment } from "../../src/settings.js";
import { known, testEach } from "../support/vectors.js";

/** Names of settings as the vectors and the config file write them. */
const NAMES: Readonly<Record<string, keyof ConnectionOptions>> = {
  address: "address",
  thread_id: "threadId",
  token: "token",
  tls_ca: "tlsCa",
};

interface Case {
  readonly name: string;
  readonly files?: Record<string, string>;
  readonly config_file?: string;
  readonly options?: Record<string, string>;
  readonly environment?: Record<string, string>;
  readonly expect?: Record<string, string | null>;
  readonly error?: string[];
}

testEach<Case>("settings.json", (one) => {
  known(one, "name", "files", "config_file", "options", "environment", "expect", "error");
  const directory = mkdtempSync(join(tmpdir(), "pausewatch-settings-"));
  try {
    for (const [name, text] of Object.entries(one.files ?? {})) {
      mkdirSync(dirname(join(directory, name)), { recursive: true });
      writeFileSync(join(directory, name), text);
    }
    if (one.error === undefined) check(load(one, directory), one.expect);
    else refused(() => settingsOf(load(one, directory)), one.error);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

function load({ config_file, options = {}, environment = {} }: Case, directory: string): ConnectionOptions {
  known(options, ...Object.keys(NAMES));
  const given = Object.fromEntries(Object.entries(options).map(([name, value]) => [NAMES[name], value]));
  const variables = Object.entries(environment).map(([name, value]) => [name, value.replace("$DIR", directory)]);
  const file = config_file === undefined ? undefined : join(directory, config_file);
  return withEnvironment(given, file, Object.fromEntries(variables));
}

function check(found: ConnectionOptions, expected: Case["expect"] = {}): void {
  known(expected, ...Object.keys(NAMES));
  // The default address is known only to the settings; the certificates are read there, and the vectors' are none.
  const { address, threadId, token } = settingsOf({ ...found, tlsCa: undefined });
  const settings = { address: formatAddress(address), thread_id: threadId, token, tls_ca: found.tlsCa };
  for (const [name, value] of Object.entries(expected)) {
    assert.equal(settings[name as keyof typeof settings] ?? null, value, name);
  }
}

function refused(action: () => unknown, parts: readonly string[]): void {
  assert.throws(action, (error: Error) => {
    assert.ok(error instanceof ConfigError, inspect(error));
    for (const part of parts) assert.ok(error.message.toLowerCase().includes(part.toLowerCase()), error.message);
    assert.ok(!inspect(error).includes("s3cret"));
    return true;
  });
}
