// Writes docs/page.png: the page of the program, with example answers instead of a coordinator's, because real pauses
// of minutes would take minutes.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { launch, Watched } from "./browser.mjs";
import { SERVICE } from "./coordinator.mjs";

const ROOT = new URL("../../", import.meta.url);
const FILES = { "/": ["index.html", "text/html; charset=utf-8"], "/page.css": ["page.css", "text/css"], "/page.js": ["page.js", "text/javascript"] };
const MINUTE = 60_000;
const start = Date.now();
const at = (minutes) => new Date(start + minutes * MINUTE).toISOString();
const length = (minutes) => `${minutes * 60}s`;

/** A thread that has been waiting for `minutes`, after `before` in all. */
function waiting(threadId, minutes, before, watchers, ...questions) {
  const elicitations = questions.map(([holder, reason, lease, asked = minutes], number) => {
    return { elicitationId: `${threadId}-${number}`, threadId, holder, reason, createTime: at(-asked), expireTime: at(lease) };
  });
  const times = { pauseStartTime: at(-minutes), pausedFor: length(minutes), pausedTotal: length(before + minutes) };
  return { threadId, count: elicitations.length, paused: true, revision: "1", storeEpoch: "1", watchers, elicitations, ...times };
}

/** A pause that ended `ago`, after `minutes`. */
function ended(threadId, ago, minutes, by, holder, reason) {
  const times = { startTime: at(-ago - minutes), endTime: at(-ago), duration: length(minutes) };
  return { threadId, ...times, endedBy: `PAUSE_END_${by}`, elicitations: [{ holder, reason }], omittedElicitations: 0 };
}

const pauseStates = [
  waiting("conversation-17", 12.1, 11, 1, ["ask[29620]@laptop", "Delete the branch release-3?", 0.45]),
  waiting("deploy/api", 3.1, 0, 0, ["deploy.sh[77]@ci-3", "Deploy 3f2a91c to production?", 0.7], ["vault@ci-3", "Log in to Vault as release-manager", 1438, 0.7]),
  waiting("review-204", 0.4, 3.6, 1, ["claude@workstation", "Run terraform apply?", 0.5]),
];
const pauses = [
  ended("review-204", 8, 2.6, "DECREMENTED", "claude@workstation", "Run the tests on staging?"),
  ended("review-204", 15, 1, "RELEASED", "claude@workstation", "Install libpq-dev?"),
  ended("conversation-17", 21, 4, "DECREMENTED", "ask[29101]@laptop", "Push to origin?"),
  ended("nightly-build", 27, 12, "EXPIRED", "ask[311]@ci-1", "Retry the upload?"),
  ended("conversation-17", 40, 7, "DECREMENTED", "ask[28811]@laptop", "Which branch?"),
];
const answers = {
  ListPauseStates: [200, { pauseStates, nextPageToken: "" }],
  ListPauses: [200, { pauses, nextPageToken: "", historyStartTime: at(-24 * 60) }],
  DecrementElicitation: [400, { code: "invalid_argument", details: [{ debug: { reason: "INVALID_FIELD" } }] }],
};

function framed(message) {
  const json = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(json.length, 1);
  return Buffer.concat([head, json]);
}

const server = createServer((request, answer) => {
  const method = request.url.replace(SERVICE, "");
  if (FILES[request.url]) {
    const [name, type] = FILES[request.url];
    answer.writeHead(200, { "content-type": type }).end(readFileSync(new URL(`src/server/http/page/${name}`, ROOT)));
  } else if (method === "WatchPauseState") {
    answer.writeHead(200, { "content-type": "application/connect+json" });
    for (const pauseState of pauseStates) answer.write(framed({ pauseState }));
    answer.write(framed({ snapshotComplete: {} }));
  } else {
    const [status, message] = answers[method] ?? [404, {}];
    answer.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(message));
  }
}).listen(0, "127.0.0.1", async () => {
  const browser = await launch();
  const shown = await Watched.open(browser, `http://127.0.0.1:${server.address().port}/`, { width: 1100, height: 940 });
  await shown.live();
  await shown.row("deploy/api", (row) => row.includes("nobody"));
  await shown.page.waitForSelector("#bars > li i.expired");
  await shown.page.waitForSelector(".asks button:not([hidden])");
  const path = fileURLToPath(new URL("docs/page.png", ROOT));
  await shown.page.screenshot({ path, fullPage: true });
  console.log(`${path} is written`);
  await browser.close();
  server.closeAllConnections();
  server.close();
});
