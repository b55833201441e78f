// Shows who waits for whom, for what, since when. A watch of every thread brings each change as it happens. A list, read every
// few seconds, brings what changes without one: watchers and renewed leases.
//
// 1. Text of strangers (thread, holder, question, error) reaches the page only as textContent, within <bdi>.
// 2. Times are measured by this page's monotonic clock, from durations that the coordinator sends: no clock has to be right.
// 3. Elements are kept and updated in place, so that focus and selection survive every change.
// 4. What is drawn is bounded, and what is not drawn is counted.
const SERVICE = "pausewatch.v1.ElicitationService/";
const MAX = { rows: 200, questions: 5, bars: 20, ended: 100, history: 4096, pages: 10 };
/** The server sends a heartbeat after at most 15 s. */
const SILENCE = 35_000;
const HOUR = 3_600_000;
const ENDED = {
  PAUSE_END_DECREMENTED: ["closed", "closed"],
  PAUSE_END_RELEASED: ["released", "released by an admin"],
  PAUSE_END_EXPIRED: ["expired", "lease expired"],
  PAUSE_END_MAX_PAUSE: ["capped", "maximum pause"],
};

const $ = (id) => document.getElementById(id);
const now = () => performance.now();
const ms = (duration) => Number.parseFloat(duration ?? "0") * 1000;
const plural = (count, noun) => `${count.toLocaleString()} ${noun}${count === 1 ? "" : "s"}`;

function span(time) {
  const s = Math.max(0, Math.floor(time / 1000));
  const [d, h, m] = [Math.floor(s / 86_400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  const two = (n) => String(n).padStart(2, "0");
  return d ? `${d}d ${two(h)}h` : h ? `${h}h ${two(m)}m` : m ? `${m}m ${two(s % 60)}s` : `${s}s`;
}

const DAY = new Intl.DateTimeFormat([], { day: "numeric", month: "short" });
const TIME = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

function clock(date) {
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? TIME.format(date) : `${DAY.format(date)} ${TIME.format(date)}`;
}

// ---- Elements

function make(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** Text of strangers: never markup, and with a direction of its own. */
function foreign(text) {
  const bdi = make("bdi");
  bdi.textContent = text;
  return bdi;
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// ---- Calls: the Connect protocol with JSON

let token = sessionStorage.getItem("pausewatch.token") ?? "";
/** The coordinator's wall clock, less this page's monotonic clock; to a second. */
let wallOffset = Date.now() - now();

async function post(method, type, body, signal) {
  const headers = { "content-type": type, "connect-protocol-version": "1" };
  // A header takes no other characters. A token that has some is wrong, and the server says so.
  if (token) headers.authorization = `Bearer ${token.replace(/[^\x21-\x7e]/g, "?")}`;
  const response = await fetch(SERVICE + method, { method: "POST", headers, body, signal, credentials: "omit", cache: "no-store" });
  const date = Date.parse(response.headers.get("date"));
  if (date) wallOffset = date - now();
  if (!response.ok) throw failure(await response.json().catch(() => ({})), `it answers with the status ${response.status}`);
  return response;
}

function failure(json, otherwise) {
  const reason = json?.details?.map((detail) => detail.debug?.reason).find(Boolean);
  return Object.assign(new Error(json?.message || otherwise), { code: json?.code, reason });
}

const call = async (method, message, signal) => (await post(method, "application/json", JSON.stringify(message), signal)).json();
/** A call that ends with the watch: it may be on a connection that nobody answers any more. */
const ask = (method, message) => call(method, message, stop.signal);

/** The messages of a stream; `opened` gets the headers of its answer. Throws what ended it. */
async function* stream(method, message, signal, opened) {
  const json = new TextEncoder().encode(JSON.stringify(message));
  const body = new Uint8Array(5 + json.length);
  new DataView(body.buffer).setUint32(1, json.length);
  body.set(json, 5);
  const response = await post(method, "application/connect+json", body, signal);
  opened(response.headers);
  const reader = response.body.getReader();
  let rest = new Uint8Array();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the connection was lost");
    const bytes = new Uint8Array(rest.length + value.length);
    bytes.set(rest);
    bytes.set(value, rest.length);
    let at = 0;
    while (bytes.length - at >= 5) {
      const end = at + 5 + new DataView(bytes.buffer, at).getUint32(1);
      if (bytes.length < end) break;
      const event = JSON.parse(new TextDecoder().decode(bytes.subarray(at + 5, end)));
      if (bytes[at] & 2) throw failure(event.error, "it ended the watch");
      yield event;
      at = end;
    }
    rest = bytes.subarray(at);
  }
}

// ---- What is known

const threads = new Map();
const past = { list: [], from: 0, due: true };
const wallNow = () => wallOffset + now();
/** When a pause began, by the wall clock of now: that may have been set since. */
const begun = ({ start, began }) => (Math.abs(start - began - wallOffset) < 2000 ? start : began + wallOffset);

/** `began`, `opened` and `ends`: by this page's clock. `start`: by the coordinator's wall clock. */
function read(state) {
  const start = Date.parse(state.pauseStartTime);
  const began = now() - ms(state.pausedFor);
  const local = (time) => began + Date.parse(time) - start;
  const open = (state.elicitations ?? []).map(({ elicitationId, holder, reason, createTime, expireTime }) => {
    return { id: elicitationId, holder: holder || "Somebody", reason: reason ?? "", opened: local(createTime), ends: expireTime && local(expireTime) };
  });
  const text = [state.threadId, ...open.flatMap(({ holder, reason }) => [holder, reason])].join("\n").toLowerCase();
  const version = `${state.storeEpoch} ${state.revision}`;
  return { id: state.threadId, version, start, began, before: ms(state.pausedTotal) - ms(state.pausedFor), open, count: state.count, text };
}

function take(state) {
  const id = state.threadId;
  const known = threads.get(id);
  if (state.paused) {
    threads.set(id, { ...read(state), watchers: known?.watchers });
    if (!known) poll.due = true;
    if (!known && isLive) announce(" waits", id);
  } else if (threads.delete(id)) {
    past.due = poll.due = true;
    if (isLive) announce(" goes on", id);
  }
  drawSoon();
}

/** What changes without a message to watchers. Asked every few seconds, and for 10 % of the time at most. */
const poll = { due: true, next: 0, isBusy: false };

async function refresh() {
  const began = now();
  Object.assign(poll, { due: false, isBusy: true });
  try {
    if (threads.size) await refreshThreads();
    if (past.due) await refreshPast().catch(() => (past.due = true));
  } catch {
    // The watch notices a lost connection. Everything else is asked again.
  }
  Object.assign(poll, { next: now() + Math.max(3000, 9 * (now() - began)), isBusy: false });
  drawSoon();
}

async function refreshThreads() {
  for (let pages = 0, pageToken = ""; pages === 0 || (pageToken && pages < MAX.pages); pages++) {
    const page = await ask("ListPauseStates", { pageSize: 1000, pageToken });
    for (const state of page.pauseStates ?? []) {
      const known = threads.get(state.threadId);
      const listed = read(state);
      if (known?.version === listed.version) Object.assign(known, listed, { watchers: state.watchers });
    }
    pageToken = page.nextPageToken;
  }
}

async function refreshPast() {
  past.due = false;
  const known = new Map(past.list.map((pause) => [pause.id, pause]));
  const since = wallNow() - 24 * HOUR;
  const range = { startTime: new Date(since).toISOString(), pageSize: known.size ? 200 : 1000 };
  let isMissing = true;
  for (let pages = 0, pageToken = ""; isMissing && (pages === 0 || (pageToken && pages < MAX.pages)); pages++) {
    const page = await ask("ListPauses", { ...range, pageToken });
    for (const { threadId, startTime, endTime, duration, endedBy, elicitations, omittedElicitations } of page.pauses ?? []) {
      const id = `${startTime} ${endTime} ${threadId}`;
      if (known.has(id)) isMissing = false;
      const [{ holder, reason } = {}] = elicitations ?? [];
      const others = (elicitations?.length ?? 1) - 1 + (omittedElicitations ?? 0);
      const text = `${threadId}\n${holder}\n${reason}`.toLowerCase();
      known.set(id, { id, threadId, start: Date.parse(startTime), end: Date.parse(endTime), length: ms(duration), ended: ENDED[endedBy] ?? ["closed", "ended"], holder, reason, others, text });
    }
    pageToken = page.nextPageToken;
    past.from = Date.parse(page.historyStartTime) || 0;
  }
  past.list = [...known.values()].filter(({ end }) => end > since).sort((a, b) => b.end - a.end).slice(0, MAX.history);
  drawPast.due = true;
}

// ---- The connection

let stop = new AbortController();
let isLive = false;
let mayRelease = false;

const sleep = (time) => new Promise((done) => setTimeout(done, time));
const next = (target, type) => new Promise((done) => target.addEventListener(type, done, { once: true }));

/** Watches as long as the page is visible: a browser has six connections to a server, for all its tabs. */
async function follow() {
  for (let wait = 250; ; wait = Math.min(wait * 2, 10_000)) {
    while (document.hidden) await next(document, "visibilitychange");
    if (document.body.dataset.link !== "lost") link("connecting", "Connecting");
    stop = new AbortController();
    try {
      await watch(stop, () => (wait = 250));
    } catch (error) {
      isLive = false;
      if (stop.signal.aborted) continue;
      stop.abort();
      if (["unauthenticated", "permission_denied"].includes(error.code)) await login(error);
      else await lost(error, wait * (1 + Math.random()));
    }
  }
}

async function watch(stop, onLive) {
  let silence;
  let snapshot = new Set();
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => stop.abort(), SILENCE);
  };
  heard();
  try {
    for await (const { pauseState, snapshotComplete } of stream("WatchPauseState", { includeElicitations: true, observer: true }, stop.signal, learnRole)) {
      heard();
      if (pauseState) {
        snapshot?.add(pauseState.threadId);
        take(pauseState);
      }
      if (snapshotComplete && snapshot) {
        for (const id of threads.keys()) if (!snapshot.has(id)) threads.delete(id);
        snapshot = null;
        onLive();
        live();
      }
    }
  } finally {
    clearTimeout(silence);
  }
}

function live() {
  isLive = true;
  link("live", "Live");
  $("content").hidden = false;
  $("lost").hidden = $("login").hidden = true;
  $("forget").hidden = !token;
  announce(threads.size ? `${plural(threads.size, "thread")} waiting` : "Nobody is waiting");
  poll.due = past.due = true;
  drawSoon();
}

/** Whether this page may release. A server that requires no tokens names no role, and lets everybody. */
function learnRole(headers) {
  mayRelease = headers.get("pausewatch-role") !== "watcher";
  set($("role"), mayRelease ? "" : "The role of this token may look on. It may not release.");
}

function link(state, text) {
  document.body.dataset.link = state;
  set($("link"), text);
}

async function lost(error, wait) {
  if (document.body.dataset.link !== "lost") {
    const asOf = $("content").hidden ? "" : ` Shown is what was known at ${new Date().toLocaleTimeString()}.`;
    $("lost").replaceChildren("No connection to the coordinator (", foreign(error.message), ").", asOf, " Trying again.");
    link("lost", "No connection");
  }
  $("lost").hidden = false;
  await Promise.race([sleep(wait), next(window, "online"), next(document, "visibilitychange")]);
}

async function login(error) {
  link("login", "Not connected");
  mayRelease = false;
  threads.clear();
  past.list = [];
  draw();
  $("lost").hidden = $("content").hidden = $("forget").hidden = true;
  $("login").hidden = false;
  $("denied").replaceChildren(...(token ? [foreign(error.message)] : []));
  $("token").value = "";
  $("token").focus();
  await next($("login"), "submit");
  token = $("token").value.trim();
  sessionStorage.setItem("pausewatch.token", token);
}

// ---- Release

const randomId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
/** What the dialog is about. */
let chosen;
const question = () => threads.get(chosen?.threadId)?.open.find(({ id }) => id === chosen.elicitationId);

function choose(threadId, elicitationId) {
  chosen = { threadId, elicitationId };
  const found = question();
  if (!found) return;
  const others = threads.get(threadId).count - 1;
  $("release-what").replaceChildren(
    make("p", "", found.reason ? foreign(found.reason) : "A question without text"),
    make("p", "", foreign(found.holder), " asks, on the thread ", foreign(threadId)),
  );
  const risk = others
    ? `The question is closed for everybody. The thread stays paused: ${plural(others, "other question")} of it ${others === 1 ? "is" : "are"} open.`
    : "The question is closed for everybody, and the thread goes on: the time of its commands counts again, so that a command may be killed while the person is still thinking.";
  set($("release-risk"), risk);
  $("release-yes").disabled = false;
  $("failed").hidden = true;
  $("release").returnValue = "";
  $("release").showModal();
}

async function release({ threadId, elicitationId }) {
  const request = { threadId, elicitationId, requestId: randomId() };
  for (let tries = 1; ; tries++) {
    try {
      return await call("DecrementElicitation", request);
    } catch (error) {
      const isClosed = ["ELICITATION_RELEASED", "ELICITATION_EXPIRED"].includes(error.reason);
      if (isClosed) return announce("The question was closed already");
      // Whether it was released is not known. The same request counts once.
      if (tries < 5 && (!error.code || error.code === "unavailable")) await sleep(250 * 2 ** tries);
      else return failed("Not released: ", foreign(error.message));
    }
  }
}

function failed(...parts) {
  $("failed").replaceChildren(...parts);
  $("failed").hidden = false;
}

// ---- What is shown

let drawing = 0;
let drawn = 0;
let cost = 0;

/** Five times a second at most, and for 20 % of the time. */
function drawSoon() {
  drawing ||= setTimeout(draw, Math.max(0, drawn + Math.max(200, 5 * cost) - now()));
}

function draw() {
  clearTimeout(drawing);
  drawing = 0;
  drawn = now();
  const sought = $("filter").value.trim().toLowerCase();
  const waiting = [...threads.values()].filter(({ text }) => text.includes(sought));
  waiting.sort((a, b) => begun(a) - begun(b) || (a.id < b.id ? -1 : 1));
  drawSummary(waiting);
  sync($("threads"), rows, waiting.slice(0, MAX.rows), makeRow, drawRow);
  const hidden = waiting.length - MAX.rows;
  $("more").hidden = hidden <= 0;
  set($("more"), `${plural(hidden, "more thread")}, shorter paused, ${hidden === 1 ? "is" : "are"} not shown. The filter finds them.`);
  if ($("release").open && !question()) {
    set($("release-risk"), "This question was closed meanwhile.");
    $("release-yes").disabled = true;
  }
  drawPast(sought, waiting);
  tell();
  cost = now() - drawn;
}

function drawSummary(waiting) {
  const all = threads.size;
  document.title = all && isLive ? `(${all}) pausewatch` : "pausewatch";
  set($("waiting"), all ? `${plural(all, "thread")} waiting` : "Waiting");
  const longest = waiting.length ? `longest ${span(drawn - waiting[0].began)}` : "";
  set($("longest"), waiting.length === all ? longest : `${waiting.length} shown`);
  const unwatched = [...threads.values()].filter(({ watchers }) => watchers === 0).length;
  $("unwatched").hidden = !unwatched;
  set($("unwatched"), unwatched === all ? "watched by nobody" : `${unwatched} watched by nobody`);
  $("nobody").hidden = all > 0;
  $("threads").hidden = !waiting.length;
}

/** Has `list` show `items` in their order. Each has an element of its own as long as it is among them. */
function sync(list, entries, items, create, update) {
  const ids = new Set(items.map(({ id }) => id));
  for (const [id, { element }] of entries) {
    if (ids.has(id)) continue;
    const hadFocus = element.contains(document.activeElement);
    element.remove();
    entries.delete(id);
    if (hadFocus) $("waiting").focus();
  }
  items.forEach((item, at) => {
    if (!entries.has(item.id)) entries.set(item.id, create(item));
    const entry = entries.get(item.id);
    if (list.children[at] !== entry.element) list.insertBefore(entry.element, list.children[at] ?? null);
    update(entry, item);
  });
}

const rows = new Map();
let numbers = 0;

function makeRow({ id }) {
  const [wait, since, total, watchers] = [make("strong"), make("time"), make("dd"), make("dd")];
  const [asks, more] = [make("ul", "asks"), make("p", "more")];
  const name = make("h3", "", foreign(id));
  name.id = `thread-${++numbers}`;
  const fact = (label, value) => make("div", "", make("dt", "", label), value);
  const facts = make("dl", "facts", fact("Watchers", watchers), fact("Paused in all", total));
  const element = make("li", "thread", make("div", "wait", wait, make("small", "", "since ", since)), make("div", "who", name, asks, more), facts);
  return { element, wait, since, total, watchers, asks, more, name, questions: new Map() };
}

function drawRow(row, thread) {
  const paused = drawn - thread.began;
  set(row.wait, span(paused));
  if (row.start !== thread.start) set(row.since, clock(new Date((row.start = thread.start))));
  set(row.total, span(thread.before + paused));
  set(row.watchers, thread.watchers === 0 ? "nobody" : thread.watchers?.toLocaleString() ?? "…");
  row.watchers.className = thread.watchers === 0 ? "warning" : "";
  const shown = thread.open.slice(0, MAX.questions);
  sync(row.asks, row.questions, shown, (item) => makeQuestion(row, thread.id, item), (entry, item) => drawQuestion(entry, item, thread));
  const others = thread.count - shown.length;
  row.more.hidden = others <= 0;
  set(row.more, `and ${plural(others, "more question")}`);
}

function makeQuestion(row, threadId, { id, holder, reason }) {
  const text = make("q", "", foreign(reason));
  text.hidden = !reason;
  const [age, button] = [make("small", "age"), make("button", "", "Release…")];
  const number = ++numbers;
  [text.id, button.id] = [`question-${number}`, `release-${number}`];
  button.type = "button";
  button.setAttribute("aria-labelledby", `${button.id} ${text.id} ${row.name.id}`);
  button.addEventListener("click", () => choose(threadId, id));
  const element = make("li", "", make("div", "", make("p", "holder", foreign(holder), " asks"), text, age), button);
  return { element, age, button };
}

function drawQuestion({ age, button }, { opened, ends }, thread) {
  const left = ends === undefined ? "without a lease" : ends > drawn ? `lease ends in ${span(ends - drawn)}` : "lease ends now";
  set(age, thread.count > 1 ? `asked ${span(drawn - opened)} ago, ${left}` : left);
  button.hidden = !mayRelease;
}

// ---- The timeline

const endedRows = new Map();

function drawPast(sought, waiting) {
  if (!drawPast.due && drawn < (drawPast.at ?? 0) + 5000) return;
  Object.assign(drawPast, { due: false, at: drawn });
  const hours = Number(document.querySelector("#range :checked").value);
  const to = wallNow();
  const from = to - hours * HOUR;
  const ended = past.list.filter(({ end, text }) => end > from && text.includes(sought));
  const lines = new Map();
  const add = (threadId, start, end, [kind, how], isOpen) => {
    const line = lines.get(threadId) ?? { threadId, bars: [], count: 0, total: 0, isOpen };
    line.count++;
    line.total += end - Math.max(start, from);
    const last = line.bars.at(-1);
    // From the latest to the earliest: what would touch is one bar.
    if (last?.kind === kind && last.start - end < hours * 10_000) last.start = Math.min(last.start, start);
    else line.bars.push({ start, end, kind, how });
    lines.set(threadId, line);
  };
  for (const { id, began } of waiting.slice(0, MAX.rows)) add(id, to - (drawn - began), to, ["open", "open"], true);
  for (const { threadId, start, end, ended: how } of ended) add(threadId, start, end, how, false);
  const shown = [...lines.values()].slice(0, MAX.bars);
  $("axis").replaceChildren(...ticks(from, to, hours));
  $("bars").replaceChildren(...shown.map((line) => makeBars(line, from, to)));
  $("chart").hidden = $("legend").hidden = !lines.size;
  const notes = [];
  if (!lines.size) notes.push("No pause in this time.");
  if (lines.size > shown.length) notes.push(`${plural(lines.size - shown.length, "more thread")} not shown.`);
  if (past.from > from) notes.push(`What ended before ${clock(new Date(past.from))} is not known to the coordinator.`);
  set($("past-note"), notes.join(" "));
  $("ended").hidden = !ended.length;
  const listed = $("ended").open ? ended.slice(0, MAX.ended) : [];
  set($("ended").firstElementChild, ended.length > MAX.ended ? `Ended pauses (the latest ${MAX.ended} of ${ended.length.toLocaleString()})` : `Ended pauses (${ended.length})`);
  sync($("ended-list"), endedRows, listed, makeEnded, () => {});
}

function ticks(from, to, hours) {
  const step = { 1: HOUR / 4, 6: HOUR, 24: 4 * HOUR }[hours];
  const zone = new Date(from).getTimezoneOffset() * 60_000;
  const made = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at < to; at += step) {
    const share = (at - from) / (to - from);
    // At an edge there is no room for a label.
    const tick = make("span", "", share > 0.06 && share < 0.94 ? TIME.format(new Date(at)) : "");
    tick.style.left = `${share * 100}%`;
    made.push(tick);
  }
  return made;
}

function makeBars({ threadId, bars, count, total, isOpen }, from, to) {
  const track = make("span", "track");
  track.ariaHidden = "true";
  const place = (className, start, end) => {
    const part = make("i", className);
    const left = Math.max(0, start - from) / (to - from);
    // The shortest bar is 3 pixels wide, also at the right edge.
    part.style.left = `min(${left * 100}%, 100% - 3px)`;
    part.style.width = `${((end - from) / (to - from) - left) * 100}%`;
    track.append(part);
    return part;
  };
  if (past.from > from) place("unknown", from, past.from);
  for (const { start, end, kind, how } of bars) place(kind, start, end).title = `${clock(new Date(start))} to ${clock(new Date(end))}: ${how}`;
  const facts = `${plural(count, "pause")}, ${span(total)}`;
  return make("li", "", foreign(threadId), track, make("small", "", isOpen ? make("span", "hidden", "waiting now, ") : "", facts));
}

function makeEnded({ threadId, end, length, ended: [, how], holder, reason, others }) {
  const what = reason ? [": ", foreign(reason)] : [];
  const who = make("div", "", foreign(threadId), make("br"), make("small", "", foreign(holder || "Somebody"), " asked", ...what, others > 0 ? ` (and ${plural(others, "more question")})` : ""));
  return { element: make("li", "", make("time", "", clock(new Date(end))), who, make("span", "time", `${span(length)}, ${how}`)) };
}

// ---- For screen readers

let news = [];
let told = -Infinity;

function announce(text, id) {
  news.push({ text, id });
}

/** One line every few seconds at most. */
function tell() {
  if (!news.length || now() < told + 3000) return;
  const [{ text, id }] = news;
  $("news").replaceChildren(...(news.length > 1 ? [`${plural(threads.size, "thread")} waiting`] : id ? [foreign(id), text] : [text]));
  told = now();
  news = [];
}

// ---- The start

$("filter").addEventListener("input", () => ((drawPast.due = true), draw()));
$("range").addEventListener("change", () => ((drawPast.due = true), draw()));
$("ended").addEventListener("toggle", () => ((drawPast.due = true), draw()));
$("login").addEventListener("submit", (event) => event.preventDefault());
$("forget").addEventListener("click", () => {
  token = "";
  sessionStorage.removeItem("pausewatch.token");
  stop.abort();
});
$("release").addEventListener("close", () => {
  if (document.activeElement === document.body) $("waiting").focus();
  if ($("release").returnValue === "release") release(chosen);
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return;
  stop.abort();
  document.title = "pausewatch";
});
setInterval(() => {
  if (document.hidden) return;
  draw();
  if (isLive && !poll.isBusy && (poll.due || now() > poll.next)) refresh();
}, 1000);
follow();
