#!/usr/bin/env node
// Runs the program that the package of this platform has, with its signals and its exit status.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";

const platforms = PLATFORMS;
const platform = `${process.platform}-${process.arch}`;

function fail(message) {
  console.error(`pausewatch: ${message}`);
  process.exit(125); // As `pausewatch run` and GNU timeout report their own failures.
}

if (!platforms.includes(platform)) {
  fail(
    `npm has no built program for ${platform}, only for ${platforms.join(", ")}. ` +
      "Build it with Rust (cargo install, see README.md of the repository); the client library works here as it is.",
  );
}
let program;
try {
  program = createRequire(import.meta.url).resolve(`@pausewatch/${platform}/bin/pausewatch`);
} catch {
  fail(
    `the package @pausewatch/${platform} is missing. npm leaves it out with --omit=optional, and on a Linux without glibc (Alpine): ` +
      "install pausewatch again without that option, or build the program with Rust.",
  );
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// The program decides what a signal means. KILL and STOP cannot be forwarded. A terminal sends its signals to both, unless the program has
// a process group of its own, as `pausewatch run` has.
const forwarded = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCONT", "SIGWINCH"];
const terminal = process.stdin.isTTY ? ["SIGINT", "SIGQUIT", "SIGWINCH", "SIGCONT"] : [];
const groupOf = (pid) => readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, "").split(" ")[2];
function hasTerminalSent(signal) {
  try {
    return terminal.includes(signal) && groupOf("self") === groupOf(child.pid);
  } catch {
    return false;
  }
}
for (const signal of forwarded) process.on(signal, () => hasTerminalSent(signal) || child.kill(signal));

child.on("error", (error) => fail(`start ${program}: ${error.message}`));
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  // The shell sees how the program ended.
  for (const each of forwarded) process.removeAllListeners(each);
  process.kill(process.pid, signal);
  setTimeout(() => process.exit(128 + constants.signals[signal]), 1000);
});
