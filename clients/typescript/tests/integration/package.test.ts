import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const PACKAGE = new URL("../../../", import.meta.url);
const run = promisify(execFile);

test("the package carries its licence", async () => {
  const pack = ["pack", "--dry-run", "--json", "--ignore-scripts"];
  const { stdout } = await run("npm", pack, { cwd: fileURLToPath(PACKAGE) });
  const paths: string[] = JSON.parse(stdout)[0].files.map(({ path }: { path: string }) => path);
  for (const path of ["LICENSE", "README.md", "dist/index.js", "dist/index.d.ts"])
    assert.ok(paths.includes(path), path);
  const licence = (path: string) => readFileSync(new URL(path, PACKAGE), "utf8");
  assert.equal(licence("LICENSE"), licence("../../LICENSE"));
});
