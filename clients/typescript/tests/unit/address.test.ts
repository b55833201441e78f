import assert from "node:assert/strict";
import { test } from "node:test";
import { formatAddress, isLocal, parseAddress } from "../../src/address.js";
import { Client } from "../../src/client.js";
import { ConfigError } from "../../src/errors.js";
import { known, vectorsOf } from "../support/vectors.js";

const VECTORS =
  vectorsOf<Record<"addresses_taken" | "addresses_refused" | "tokens_taken" | "tokens_refused", string[]>>(
    "addresses.json",
  );

function problemOf(action: () => unknown): unknown {
  try {
    action();
    return undefined;
  } catch (error) {
    return error;
  }
}

test("every form is parsed and printed in its short form", () => {
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

test("an invalid address is quoted with the cause", () => {
  for (const [given, why] of [
    ["", "the host is missing"],
    [":7420", "the host is missing"],
    ["localhost", "the port is missing"],
    ["[::1]", "the port is missing"],
    ["::1:7420", ""],
    ["[host]:7420", "no name and no IP address"],
    ["256.1.1.1:7420", "no name and no IP address"],
    ["a host:7420", "no name and no IP address"],
    ["host:0", "the port is not a number"],
    ["host:65536", "the port is not a number"],
    ["host:", "the port is not a number"],
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

test("addresses that every client accepts and refuses", () => {
  known(VECTORS, "about", "addresses_taken", "addresses_refused", "tokens_taken", "tokens_refused");
  const { addresses_taken, addresses_refused, tokens_taken, tokens_refused } = VECTORS;
  for (const address of addresses_taken)
    assert.equal(
      problemOf(() => new Client({ address })),
      undefined,
      address,
    );
  for (const token of tokens_taken)
    assert.equal(
      problemOf(() => new Client({ token })),
      undefined,
      token,
    );
  for (const address of addresses_refused) {
    assert.ok(problemOf(() => new Client({ address })) instanceof ConfigError, address);
  }
  for (const token of tokens_refused) {
    const problem = problemOf(() => new Client({ token }));
    assert.ok(problem instanceof ConfigError && (token === "" || !problem.message.includes(token)), token);
  }
  assert.ok(addresses_taken.length + addresses_refused.length + tokens_taken.length + tokens_refused.length > 30);
});

test("only loopback addresses and Unix sockets are local", () => {
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
