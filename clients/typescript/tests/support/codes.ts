import assert from "node:assert/strict";
import { Code } from "@connectrpc/connect";

/** The code that a vector names as gRPC does: `RESOURCE_EXHAUSTED`. */
export function codeOf(name: string): Code {
  const code = Object.entries(Code).find(([own]) => own.toUpperCase() === name.replaceAll("_", ""))?.[1];
  assert.ok(typeof code === "number", name);
  return code;
}
