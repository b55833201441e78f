import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { formatAddress, isLocal, parseAddress } from "../../src/address.js";
import { Client } from "../../src/client.js";
import { ConfigError } from "../../src/errors.js";

/** What is expected, and the value. */
const CASES = readFileSync(new URL("../../../../scenarios/addresses.txt", import.meta.url), "utf8")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"))
  .map((line) => [line.slice(0, line.indexOf(" ")), line.slice(line.indexOf(" ") + 1)] as const);

function problemOf(action: () => unknown): unknown {
  try {
    action();
    return undefined;
  } catch (error) {
    return error;
  }
}

test("every form is read and printed in its short form", () => {
  for (const [given, printed] of [
    ["127.0.0.1:7420", "127.0.0.1:7420"],
    ["localhost:1", "localhost:1"],
    ["[::1]:7420", "[::1]:7420"],
    ["http://example.com:65535", "example.com:65535"],
    ["http://example.com/", "example.com:80"],
    ["http://[::1]:7420/", "[::1]:7420"],
    ["https://example.com", "https://example.com:443"],
    ["https://[::1]:7420/", "https://[::1]:7420"],
    ["unix:/run/p.sock", "unix:/run/p.sock"],
    ["unix:///run/p.sock", "unix:/run/p.sock"],
    ["unix:p.sock", "unix:p.sock"],
  ] as const) {
    const address = parseAddress(given);
    assert.equal(formatAddress(address), printed);
    assert.deepEqual(parseAddress(printed), address, `${printed} read again`);
  }
});

test("what is no address says why, and quotes it", () => {
  for (const [given, why] of [
    ["", "the host is missing"],
    [":7420", "the host is missing"],
    ["localhost", "the port is missing"],
    ["[::1]", "the port is missing"],
    ["::1:7420", ""],
    ["[host]:7420", "no name and no IP address"],
    ["256.1.1.1:7420", "no name and no IP address"],
    ["a host:7420", "no name and no IP address"],
    ["host:0", "the port is no number"],
    ["host:65536", "the port is no number"],
    ["host:", "the port is no number"],
    ["http://", "the host is missing"],
    ["http://host:7420/path", "more in it"],
    ["https://host:7420/path", "more in it"],
    ["user@host:7420", "more in it"],
    ["ftp://host:21", '"ftp" is unknown'],
    ["constructor://host:21", '"constructor" is unknown'],
    ["unix:", "the path is missing"],
    ["unix:a\0b", "a path has no NUL"],
    ["unix://host/p.sock", "absolute path"],
  ] as const) {
    assert.throws(
      () => parseAddress(given),
      (error: Error) => {
        assert.ok(error instanceof ConfigError && error.message.includes(why), `${given}: ${error.message}`);
        return error.message.includes(JSON.stringify(given));
      },
    );
  }
});

test("what every client takes and refuses", () => {
  for (const [expected, value] of CASES) {
    const problem = problemOf(() =>
      expected.startsWith("token-") ? new Client({ token: value }) : new Client({ address: value }),
    );
    if (expected.endsWith("accept")) assert.equal(problem, undefined, value);
    else assert.ok(problem instanceof ConfigError, `${value}: ${problem}`);
  }
  assert.ok(CASES.length > 30);
});

test("only loopback and Unix sockets are this machine", () => {
  const local = ["127.0.0.1:1", "127.9.8.7:1", "[::1]:1", "localhost:1", "LOCALHOST:1", "unix:/p", "https://localhost"];
  for (const address of local) assert.equal(isLocal(parseAddress(address)), true, address);
  const elsewhere = [
    "10.0.0.1:1",
    "[::]:1",
    "[2001:db8::1]:1",
    "localhost.example.com:1",
    "127.example.com:1",
    "127.0.0.1.example.com:1",
  ];
  for (const address of elsewhere) assert.equal(isLocal(parseAddress(address)), false, address);
});
