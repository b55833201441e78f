/** The test vectors of all clients: clients/vectors. */
import { readFileSync } from "node:fs";
import { test } from "node:test";

export function vectorsOf<T>(file: string): T {
  return JSON.parse(readFileSync(new URL(`../../../../vectors/${file}`, import.meta.url), "utf8"));
}

/** One test for each case of a file. */
export function testEach<C extends { readonly name: string }>(
  file: string,
  run: (one: C) => void | Promise<void>,
): void {
  const { cases } = vectorsOf<{ cases: C[] }>(file);
  if (cases.length === 0) throw new Error(`${file} has no cases`);
  for (const one of cases) test(`${file}: ${one.name}`, () => run(one));
}

/** Fails at a key that the runner does not know. */
export function known(object: object, ...keys: string[]): void {
  const strange = Object.keys(object).filter((key) => !keys.includes(key));
  if (strange.length > 0) throw new Error(`unknown: ${strange}`);
}
