import assert from "node:assert/strict";
import { chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { inspect } from "node:util";
import { formatAddress } from "../../src/address.js";
import { Client } from "../../src/client.js";
import { type Environment, parseConfigFile } from "../../src/config-file.js";
import { ConfigError } from "../../src/errors.js";
import { Log } from "../../src/log.js";
import { type ConnectionOptions, settingsOf, withEnvironment } from "../../src/settings.js";
import { identity } from "../support/certificates.js";

const directory = mkdtempSync(join(tmpdir(), "pausewatch-settings-"));
after(() => rmSync(directory, { recursive: true }));

function file(name: string, text: string): string {
  const path = join(directory, name);
  writeFileSync(path, text);
  return path;
}

function settingsFrom(options: ConnectionOptions, configFile: string | undefined, environment: Environment) {
  return settingsOf(withEnvironment(options, configFile, environment));
}

function refused(action: () => unknown, ...parts: string[]): void {
  assert.throws(action, (error: Error) => {
    assert.ok(error instanceof ConfigError, `${error}`);
    for (const part of parts) assert.ok(error.message.includes(part), error.message);
    assert.ok(!inspect(error).includes("s3cret"));
    return true;
  });
}

test("a plaintext address ignores lower TLS settings", () => {
  const rest = 'thread_id = "t"\ntoken = "fleet"\n';
  for (const forTls of ['address = "https://fleet:1"\n', 'tls_ca = "/ca"\n']) {
    const path = file("fleet.toml", rest + forTls);
    const variables = { PAUSEWATCH_ADDRESS: "unix:/p.sock" };
    for (const { threadId, token, tls } of [
      settingsFrom({}, path, variables),
      settingsFrom({ address: "127.0.0.1:1" }, path, {}),
    ]) {
      assert.deepEqual([threadId, token, tls], ["t", undefined, {}], forTls);
    }
    const beside = settingsFrom({}, path, { ...variables, PAUSEWATCH_TOKEN: "ours" });
    assert.equal(beside.token, "ours", "what stands beside it is meant for it");
  }
  const path = file("fleet.toml", `${rest}tls_ca = "/ca"\n`);
  const { token, tlsCa } = withEnvironment({ address: "https://other:1" }, path, {});
  assert.deepEqual([token, tlsCa], ["fleet", "/ca"], "what goes over TLS stays");
  assert.equal(settingsFrom({ address: "127.0.0.1:1" }, file("plain.toml", rest), {}).token, "fleet");
});

// As after `su` without `-`: HOME is that of root.
test("a config file in the home of another user is ignored with a warning", () => {
  const { getuid, seteuid } = process;
  assert.ok(getuid && seteuid, "this system has no users");
  const isRoot = getuid() === 0;
  const own = mkdtempSync(join(tmpdir(), "pausewatch-own-"));
  const path = join(own, ".config", "pausewatch", "config.toml");
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, 'thread_id = "t"\n', { mode: 0 });
  const theirs = isRoot ? mkdtempSync(join(tmpdir(), "pausewatch-theirs-")) : "/root";
  if (isRoot) for (const place of [own, join(own, ".config"), join(path, ".."), path]) chownSync(place, 65534, 65534);
  const warnings: string[] = [];
  const log = new Log({ info: () => {}, warn: (message) => warnings.push(message) });
  if (isRoot) seteuid(65534);
  try {
    assert.equal(withEnvironment({}, undefined, { HOME: theirs }, log).threadId, undefined);
    refused(() => withEnvironment({}, undefined, { HOME: own }, log), path, "EACCES");
  } finally {
    if (isRoot) seteuid(0);
    rmSync(own, { recursive: true });
    if (isRoot) rmSync(theirs, { recursive: true });
  }
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? "", /belongs to another user; correct HOME/);
});

test("the default file may be missing, a named one may not", () => {
  assert.equal(settingsFrom({}, undefined, { HOME: directory }).threadId, undefined);
  refused(() => settingsFrom({}, join(directory, "no.toml"), {}), "config file", "no.toml", "ENOENT");
  refused(() => settingsFrom({}, undefined, { PAUSEWATCH_CONFIG: join(directory, "no.toml") }), "no.toml");
});

test("an error in a config file is reported with its line and without values", () => {
  for (const [text, why] of [
    ['thread_id = "t"\nadress = "s3cret"\n', "line 2: unknown field `adress`, expected `address`, `thread_id`"],
    ["thread_id = 7\n", "line 1: `thread_id` must be a string"],
    ['\n[token]\nvalue = "s3cret"\n', "line 2: `token` must be a string"],
    ['thread_id = "t"\n= "s3cret"\n', "line 2: "],
    ['token = "s3cret\n', "line 1: "],
  ] as const) {
    refused(() => parseConfigFile(text), why);
  }
  assert.deepEqual(parseConfigFile("# nothing yet\n"), {});
  assert.deepEqual(parseConfigFile('\ufeffthread_id = "t"\n'), { thread_id: "t" }, "a byte order mark");
  const withServer = 'thread_id = "t"\n[serve]\nlisten = [7]\n';
  assert.deepEqual(parseConfigFile(withServer), { thread_id: "t" }, "the server's part is passed over");
});

test("an invalid address is reported with its source, unless it is overridden", () => {
  const bad = file("bad.toml", '\naddress = "host"\n');
  refused(() => settingsFrom({}, bad, {}), `config file ${bad}: line 2: address "host": the port is missing`);
  const environment = { PAUSEWATCH_ADDRESS: "host" };
  refused(() => settingsFrom({}, undefined, environment), 'PAUSEWATCH_ADDRESS: address "host": the port is missing');
  assert.equal(formatAddress(settingsFrom({ address: "h:1" }, undefined, environment).address), "h:1");
});

test("a token goes in plain text to this machine only", () => {
  for (const address of ["127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/run/p.sock", "https://example.com"]) {
    assert.equal(settingsFrom({ address, token: "s3cret" }, undefined, {}).token, "s3cret");
  }
  refused(
    () => settingsFrom({ address: "example.com:1", token: "s3cret" }, undefined, {}),
    "plain text",
    "https://example.com:1",
  );
});

test("a token that is not valid in a header is refused without printing it", () => {
  for (const token of ["s3cret\n", "s3cret ", "s3cret s3cret", "s3crét"]) {
    refused(() => settingsFrom({ token }, undefined, {}), "token", "visible ASCII");
  }
});

test("certificates need https, and a certificate its key", () => {
  const tlsCa = file("ca.pem", "-----BEGIN CERTIFICATE-----\n");
  refused(() => settingsFrom({ tlsCa }, undefined, {}), "tls_ca", "plain text", "https://");
  refused(() => settingsFrom({}, undefined, { PAUSEWATCH_TLS_CERT: tlsCa }), "tls_cert", "https://");
  const address = "https://example.com";
  refused(() => settingsFrom({ address, tlsCert: tlsCa }, undefined, {}), "tls_cert without tls_key");
  refused(() => settingsFrom({ address, tlsKey: tlsCa }, undefined, {}), "tls_key without tls_cert");
  refused(() => settingsFrom({ address, tlsCa: join(directory, "no.pem") }, undefined, {}), "tls_ca", "ENOENT");
  refused(() => settingsFrom({ address, tlsCa: file("no.pem", "s3cret") }, undefined, {}), "tls_ca", "is no PEM file");
});

test("certificates and keys that cannot be used are refused at once", () => {
  const address = "https://example.com";
  const [own, other] = [identity("own"), identity("other")];
  const cut = own.certPem.slice(0, 200);
  for (const [name, text] of [
    ["cut.pem", cut],
    ["second-cut.pem", `${other.certPem}${cut}`],
    ["first-cut.pem", `${cut}\n${other.certPem}`],
    ["not.pem", own.certPem.replace(/^[^-].*$/gm, "s3cret==")],
    ["key.pem", own.keyPem],
  ] as const) {
    const path = file(name, text);
    refused(() => new Client({ address, tlsCa: path }), `tls_ca: ${path} has no usable certificate`);
    const tlsKey = file("own.key", own.keyPem);
    refused(() => new Client({ address, tlsCert: path, tlsKey }), `tls_cert: ${path} has no usable certificate`);
  }
  const tlsCert = file("own.pem", own.certPem);
  refused(() => new Client({ address, tlsCert, tlsKey: tlsCert }), `tls_key: ${tlsCert} has no usable key`);
  const otherKey = file("other.key", other.keyPem);
  refused(() => new Client({ address, tlsCert, tlsKey: otherKey }), "tls_ca, tls_cert, tls_key", "mismatch");

  const bundle = file("bundle.pem", `# own\n${own.certPem}\n# other\n${other.certPem}`);
  const both = file("both.pem", `${own.keyPem}${own.certPem}`);
  new Client({ address, tlsCa: bundle, tlsCert: both, tlsKey: both });
});

test("a client shows no token", () => {
  const client = new Client({ token: "s3cret" });
  assert.ok(!inspect(client, { depth: 10, showHidden: true }).includes("s3cret"));
  assert.ok(!JSON.stringify(client).includes("s3cret"));
});

test("an invalid deadline is refused", () => {
  for (const deadlineMs of [0, -1, Number.NaN]) refused(() => new Client({ deadlineMs }), "deadlineMs");
});
