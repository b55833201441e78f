#!/bin/sh
":" /*; # For a shell: it becomes the program of this platform, which so has all files and ignored signals of its caller.
case $(uname -sm) in "Linux x86_64") platform=linux-x64 ;; "Linux aarch64") platform=linux-arm64 ;; *) platform=none ;; esac
directory=$(readlink -f "$0")
while directory=${directory%/*} && [ -n "$directory" ]; do
    program=$directory/node_modules/@pausewatch/$platform/bin/pausewatch
    [ ! -x "$program" ] || exec "$program" "$@"
done
exec node "$0" "$@"
*/
// For Node: Yarn starts this file with it. Runs the program beside it, with its signals and its exit status. If the
// program is missing, prints why.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";

const platforms = PLATFORMS;
const platform = `${process.platform}-${process.arch}`;

function fail(message) {
  console.error(`pausewatch: ${message}`);
  process.exit(125); // The code of `pausewatch run` and GNU timeout for their own failures.
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
// The program decides how to react to a signal. KILL and STOP cannot be forwarded. A terminal sends its signals to
// both, unless the program has its own process group, as `pausewatch run` has.
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
  // Ends by the same signal, so that the shell sees how the program ended.
  for (const each of forwarded) process.removeAllListeners(each);
  process.kill(process.pid, signal);
  setTimeout(() => process.exit(128 + constants.signals[signal]), 1000);
});
