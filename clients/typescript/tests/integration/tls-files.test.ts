/** Certificates that are replaced on disk while a client uses them. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { Client, type ClientOptions } from "../../src/index.js";
import { type Identity, identity } from "../support/certificates.js";
import { Coordinator, until } from "../support/coordinator.js";
import { FakeCoordinator } from "../support/fake.js";

/** The files of a client and its server. */
class Files {
  readonly #directory = mkdtempSync(join(tmpdir(), "pausewatch-tls-files-"));

  constructor() {
    after(() => rmSync(this.#directory, { recursive: true }));
  }

  path(name: string): string {
    return join(this.#directory, name);
  }

  write(name: string, contents: string): string {
    writeFileSync(this.path(name), contents);
    return this.path(name);
  }

  /** Replaces all files by those of a new authority. */
  renew(): { authority: Identity; server: Identity } {
    const authority = identity("authority");
    const [server, program] = [identity("server", authority), identity("program", authority)];
    this.write("ca.pem", authority.certPem);
    for (const { name, certPem, keyPem } of [server, program]) {
      this.write(`${name}.pem`, certPem);
      this.write(`${name}.key`, keyPem);
    }
    return { authority, server };
  }

  get options(): ClientOptions {
    return { tlsCa: this.path("ca.pem"), tlsCert: this.path("program.pem"), tlsKey: this.path("program.key") };
  }
}

test("renewed certificates are used for new connections", async () => {
  const files = new Files();
  files.renew();
  const mutual = ["--tls-cert", "server.pem", "--tls-key", "server.key", "--tls-client-ca", "ca.pem"];
  const limits = mutual.map((word) => (word.startsWith("--") ? word : files.path(word)));
  await using coordinator = await Coordinator.start({ limits });
  using client = coordinator.client(files.options);
  using timeout = client.startTimeout(3_600_000, { threadId: "t" });
  for (let times = 0; times < 3; times++) {
    const hold = await client.hold("t");
    await until(() => timeout.linked && timeout.paused);
    await hold.release();
    await until(() => timeout.linked && !timeout.paused);
    await coordinator.stop();
    files.renew();
    await coordinator.start();
  }
});

/** A client of a server with certificates of these files; `call` uses a new connection. */
async function start(files: Files) {
  const { authority, server } = files.renew();
  const tls = { key: server.keyPem, cert: server.certPem, ca: authority.certPem, requestCert: true };
  const fake = await FakeCoordinator.start(
    { getPauseState: ({ threadId }) => ({ pauseState: { threadId } }) },
    { ...tls, rejectUnauthorized: true },
  );
  const warnings: string[] = [];
  const logger = { info: () => undefined, warn: (message: string) => void warnings.push(message) };
  const connect = (options: ClientOptions) => {
    const client = new Client({ address: `https://localhost:${fake.port}`, logger, retries: 1, ...options });
    const call = async () => {
      fake.disconnect();
      await until(() => fake.open === 0);
      await client.getPauseState({ threadId: "t" });
    };
    return { client, call };
  };
  return { authority, fake, warnings, connect };
}

test("while a file is wrong, the last good certificates are used, with one warning for each problem", async () => {
  const files = new Files();
  const { authority, fake, warnings, connect } = await start(files);
  await using _ = fake;
  const { client, call } = connect(files.options);
  using __ = client;
  await call();
  await call();
  assert.deepEqual(warnings, [], "good files");

  const path = files.path("ca.pem");
  const key = files.path("program.key");
  for (const [replace, why] of [
    [() => files.write("ca.pem", authority.certPem.slice(0, 200)), `tls_ca: ${path} has no usable certificate: `],
    [() => files.write("ca.pem", ""), `tls_ca: ${path} is no PEM file; `],
    [() => rmSync(path), "tls_ca: ENOENT: "],
    [() => execFileSync("mkfifo", [path]), `tls_ca: ${path} is not a regular file; `],
    [
      () => {
        rmSync(path);
        files.write("ca.pem", authority.certPem);
        files.write("program.key", identity("other").keyPem);
      },
      `tls_ca, tls_cert, tls_key (${path}, ${files.path("program.pem")}, ${key}): `,
    ],
  ] as const) {
    replace();
    await call();
    await call();
    const [warning = "", ...more] = warnings.splice(0);
    assert.ok(warning.startsWith(`pausewatch: ${why}`), warning);
    assert.ok(warning.includes(path) && warning.includes("still using the last good certificates"), warning);
    assert.deepEqual(more, []);
  }

  files.renew();
  await assert.rejects(call, { transient: true, message: /certificate/ }, "the server still has the old ones");
  assert.deepEqual(warnings, []);
});

test("a pipe is read once, and a relative path stays the same file", async () => {
  const files = new Files();
  const { fake, warnings, connect } = await start(files);
  await using _ = fake;
  const pipe = files.path("pipe");
  execFileSync("mkfifo", [pipe]);
  execFileSync("sh", ["-c", 'cat "$0" > "$1" &', files.path("ca.pem"), pipe], { stdio: "ignore" });
  const directory = process.cwd();
  process.chdir(dirname(pipe));
  const { client, call } = connect({ ...files.options, tlsCa: pipe, tlsKey: "program.key" });
  process.chdir(directory);
  using __ = client;
  await call();
  await call();
  assert.deepEqual(warnings, []);
});

test("TLS options of the program stay as they are", async () => {
  const files = new Files();
  const { authority, fake, connect } = await start(files);
  await using _ = fake;
  const own = identity("program", authority);
  const { client, call } = connect({ tls: { ca: authority.certPem, cert: own.certPem, key: own.keyPem } });
  using __ = client;
  await call();
  files.renew();
  await call();
});
