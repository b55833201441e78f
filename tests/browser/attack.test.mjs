// Pages of other origins, in a browser on the same machine: they can neither change nor read anything.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { launch, until } from "./browser.mjs";
import { Coordinator, SERVICE } from "./coordinator.mjs";

const SECRET = "a question that nobody else may read";
let browser;
let coordinator;
let evil;

before(async () => {
  const page = (_, answer) => answer.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>evil</title>");
  evil = createServer(page).listen(0, "127.0.0.1");
  [browser, coordinator] = await Promise.all([launch({ isOpen: true }), Coordinator.start(["--store", "memory"])]);
  await coordinator.increment("secret", "ask", SECRET);
});
after(async () => {
  await browser?.close();
  evil?.closeAllConnections();
  evil?.close();
  await coordinator?.stop();
});

/** Runs in the page: sends everything that a page can send, and returns what the page sees of each answer. */
async function attack(target, service) {
  const call = `${target}${service}IncrementElicitation`;
  const list = `${target}${service}ListPauseStates`;
  const message = JSON.stringify({ threadId: "victim" });
  const learnt = {};
  const attempt = async (name, act) => {
    try {
      learnt[name] = await act();
    } catch {
      learnt[name] = "an error";
    }
  };
  const post = (options) => fetch(call, { method: "POST", body: message, ...options }).then(async (answer) => `${answer.type} ${answer.status} ${await answer.text()}`);
  const json = { "content-type": "application/json" };
  const added = (name, set, events) =>
    new Promise((resolve) => {
      const element = Object.assign(document.createElement(name), set);
      for (const [event, means] of Object.entries(events)) {
        element.addEventListener(event, () => {
          const result = typeof means === "string" ? means : means(element);
          if (result) resolve(result);
        });
      }
      document.body.append(element);
    });
  const frame = (element) => (element.contentDocument ? `readable: ${element.contentDocument.body?.innerText}` : "opaque");
  await attempt("fetch", () => post({ headers: json }));
  await attempt("fetch of connect", () => post({ headers: { ...json, "connect-protocol-version": "1" } }));
  await attempt("fetch of grpc", () => post({ headers: { "content-type": "application/grpc" } }));
  await attempt("fetch without cors", () => post({ mode: "no-cors" }));
  await attempt("fetch of a blob without cors", () => post({ mode: "no-cors", body: new Blob([message], { type: "application/json" }) }));
  await attempt("fetch without an origin", () => post({ mode: "no-cors", referrerPolicy: "no-referrer", headers: { "content-type": "text/plain" } }));
  await attempt("get of a change", () => fetch(`${call}?encoding=json&connect=v1&message=${encodeURIComponent(message)}`, { mode: "no-cors" }).then((answer) => `${answer.type} ${answer.status}`));
  await attempt("get of a list", () => fetch(`${list}?encoding=json&connect=v1&message=%7B%7D`).then((answer) => answer.text()));
  await attempt("post of a list", () => fetch(list, { method: "POST", headers: json, body: "{}" }).then((answer) => answer.text()));
  await attempt("event source", () => {
    const source = new EventSource(`${target}${service}WatchPauseState`);
    const events = new Promise((resolve) => {
      source.onmessage = ({ data }) => resolve(`READ ${data}`);
      source.onerror = () => resolve("an error");
      source.onopen = () => resolve("OPEN");
    });
    return events.finally(() => source.close());
  });
  await attempt("image", () => added("img", { src: `${list}?encoding=json&connect=v1&message=%7B%7D` }, { load: "LOADED", error: "an error" }));
  await attempt("script", () => added("script", { src: `${target}/page.js` }, { load: "RAN", error: "an error" }));
  await attempt("script of a list", () => added("script", { src: `${list}?encoding=json&connect=v1&message=%7B%7D` }, { load: "RAN", error: "an error" }));
  await attempt("style", () => added("link", { rel: "stylesheet", href: `${target}/page.css` }, { load: "LOADED", error: "an error" }));
  await attempt("frame", () => added("iframe", { src: `${target}/` }, { load: frame }));
  for (const enctype of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
    await attempt(`form of ${enctype}`, () => {
      const name = `frame-${enctype}`;
      const form = Object.assign(document.createElement("form"), { method: "post", enctype, action: call, target: name });
      form.append(Object.assign(document.createElement("input"), { name: '{"threadId":"victim","reason":"', value: '"}' }));
      const sent = added("iframe", { name }, {
        load: (element) => (element.contentDocument?.URL === "about:blank" ? "" : frame(element)),
      });
      document.body.append(form);
      // The form is submitted only after the frame's blank document has loaded.
      form.submit();
      return sent;
    });
  }
  await attempt("beacon", () => navigator.sendBeacon(call, new Blob([message], { type: "text/plain" })));
  await attempt("beacon of json", () => navigator.sendBeacon(`${call}?beacon`, new Blob([message], { type: "application/json" })));
  return learnt;
}

/** The addresses of the page's requests that have ended. */
function ended(page) {
  const urls = [];
  for (const event of ["requestfinished", "requestfailed"]) page.on(event, (request) => urls.push(`${request.method()} ${request.url()}`));
  return urls;
}

for (const name of ["127.0.0.1", "localhost", "evil.test"]) {
  test(`a page of another port of ${name} changes nothing and reads nothing`, async () => {
    const page = await browser.newPage();
    const requests = ended(page);
    await page.goto(`http://${name}:${evil.address().port}/`);
    const learnt = await page.evaluate(attack, `http://${coordinator.address}`, SERVICE);
    // No event in the page reports that a beacon has arrived.
    await until("the end of the beacons", () => requests.some((request) => request.endsWith("?beacon")));
    assert.deepEqual(await coordinator.paused(), ["secret"], JSON.stringify(learnt));
    const text = JSON.stringify(learnt);
    assert.ok(!text.includes(SECRET) && !text.includes("readable: ") && !/READ|OPEN|RAN|LOADED/.test(text), text);
    for (const [name, result] of Object.entries(learnt)) {
      assert.ok(["an error", "opaque", "opaque 0 ", "opaque 0", true, false, null].includes(result), `${name}: ${result}`);
    }
    await page.close();
  });
}

test("the same from the coordinator's own page goes through, so the attempts are real", async () => {
  const page = await browser.newPage();
  await page.goto(coordinator.url);
  const learnt = await page.evaluate(
    async (service) => {
      const headers = { "content-type": "application/json" };
      const post = (method, body) => fetch(service + method, { method: "POST", headers, body }).then((answer) => answer.text());
      const get = await fetch(`${service}ListPauseStates?encoding=json&connect=v1&message=%7B%7D`).then((answer) => answer.text());
      return [await post("IncrementElicitation", '{"threadId":"own"}'), await post("ListPauseStates", "{}"), get];
    },
    SERVICE,
  );
  assert.deepEqual(await coordinator.paused(), ["own", "secret"]);
  assert.ok(learnt[1].includes(SECRET) && learnt[2].includes(SECRET), JSON.stringify(learnt));
  await coordinator.run("decrement", "--thread-id", "own");
  await page.close();
});

test("a name that is led to the coordinator (DNS rebinding) is misdirected", async () => {
  const page = await browser.newPage();
  await page.setRequestInterception(true);
  let isFirst = true;
  page.on("request", (request) => {
    // The attacker's page, before its name resolves to another address.
    if (isFirst) request.respond({ status: 200, contentType: "text/html", body: "<!doctype html>" });
    else request.continue();
    isFirst = false;
  });
  await page.goto(`http://evil.test:${coordinator.port}/`);
  const answers = await page.evaluate(async (service) => {
    const answers = [];
    for (const [method, type] of [["IncrementElicitation", "application/json"], ["IncrementElicitation", "application/grpc"], ["ListPauseStates", "application/json"]]) {
      const answer = await fetch(service + method, { method: "POST", headers: { "content-type": type }, body: '{"threadId":"victim"}' });
      answers.push([answer.status, await answer.text()]);
    }
    for (const path of ["/", "/page.js", `${service}ListPauseStates?encoding=json&connect=v1&message=%7B%7D`]) {
      const answer = await fetch(path);
      answers.push([answer.status, await answer.text()]);
    }
    return answers;
  }, SERVICE);
  for (const [status, text] of answers) assert.ok([421, 505].includes(status) && !text.includes(SECRET), `${status} ${text}`);
  assert.equal(answers.filter(([status]) => status === 421).length >= 5, true, JSON.stringify(answers));
  assert.deepEqual(await coordinator.paused(), ["secret"]);
  await page.close();
});

test("a link from elsewhere leads to the page", async () => {
  const page = await browser.newPage();
  await page.goto(`http://evil.test:${evil.address().port}/`);
  await page.evaluate((href) => {
    document.body.append(Object.assign(document.createElement("a"), { href, textContent: "link" }));
  }, coordinator.url);
  await Promise.all([page.waitForNavigation(), page.click("a")]);
  await page.waitForFunction(() => document.body.dataset.link === "live");
  assert.equal(page.url(), coordinator.url);
  await page.close();
});
