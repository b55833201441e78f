// Accessibility: by keyboard, by screen reader, on a phone, dark and light.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, until, Watched } from "./browser.mjs";
import { Coordinator } from "./coordinator.mjs";

let browser;
let coordinator;

before(async () => {
  [browser, coordinator] = await Promise.all([launch(), Coordinator.start(["--store", "memory"])]);
});
after(async () => {
  await browser?.close();
  await coordinator?.stop();
});

/** The element with the focus: its id, or its text. */
const focused = (page) => page.evaluate(() => document.activeElement.id || document.activeElement.innerText);

/** Presses Tab until the focused element matches. */
async function tabTo(page, wanted) {
  const seen = [];
  for (let presses = 0; presses < 40; presses++) {
    await page.keyboard.press("Tab");
    seen.push(await focused(page));
    if (wanted.test(seen.at(-1))) return;
  }
  throw new Error(`Tab does not lead to ${wanted}: ${seen.join(", ")}`);
}

test("a question is released by keyboard alone", async () => {
  await coordinator.increment("conversation-17", "ask", "Delete the branch?");
  await coordinator.increment("conversation-18", "ask", "And this one?");
  const shown = await Watched.open(browser, coordinator.url);
  await shown.live();
  await shown.row("conversation-18");
  await shown.page.waitForSelector(".asks button:not([hidden])");
  await shown.page.keyboard.press("Tab");
  assert.match(await focused(shown.page), /^Skip to/);
  await tabTo(shown.page, /^release-\d+$/);
  const outline = await shown.page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.equal(outline, "solid", "the focus can be seen");
  await shown.page.keyboard.press("Enter");
  await shown.page.waitForSelector("dialog[open]");
  assert.equal(await focused(shown.page), "Keep waiting");
  // The focus stays in the dialog.
  await tabTo(shown.page, /^release-yes$/);
  await shown.page.keyboard.press("Enter");
  await shown.gone("conversation-17");
  assert.deepEqual(await coordinator.paused(), ["conversation-18"]);
  await until("the focus at the heading", async () => (await focused(shown.page)) === "waiting");
  await tabTo(shown.page, /^release-\d+$/);
  await shown.page.keyboard.press("Enter");
  await shown.page.waitForSelector("dialog[open]");
  await shown.page.keyboard.press("Escape");
  await shown.page.waitForSelector("dialog:not([open])");
  assert.match(await focused(shown.page), /^release-\d+$/, "the focus is where it was");
  await coordinator.run("decrement", "--thread-id", "conversation-18");
  await shown.gone("conversation-18");
  assert.equal(await focused(shown.page), "waiting");
  await shown.page.close();
  assert.deepEqual(shown.complaints, []);
});

/** Role and name of everything in the accessibility tree. */
function named(node, found = []) {
  found.push(`${node.role}: ${node.name ?? ""}`);
  for (const child of node.children ?? []) named(child, found);
  return found;
}

test("everything has a role and a name in the accessibility tree", async () => {
  await coordinator.increment("conversation-17", "ask[1]@laptop", "Delete the branch?");
  const shown = await Watched.open(browser, coordinator.url);
  await shown.live();
  await shown.row("conversation-17");
  await shown.page.waitForSelector(".asks button:not([hidden])");
  const tree = async () => named(await shown.page.accessibility.snapshot({ interestingOnly: false }));
  const has = async (entries) => {
    const there = await tree();
    for (const entry of entries) assert.ok(there.includes(entry), `${entry} is not among\n${there.filter((entry) => !entry.endsWith(": ")).join("\n")}`);
  };
  await has([
    "banner: ",
    "main: ",
    "heading: pausewatch",
    "heading: 1 thread waiting",
    "region: 1 thread waiting",
    "list: Threads that wait for a person, longest first",
    "heading: conversation-17",
    "button: Release… Delete the branch? conversation-17",
    "searchbox: Filter by thread, holder or question",
    "region: Timeline",
    "group: Length of the timeline",
    "radio: 6 hours",
    "list: Threads that were paused, the latest first",
  ]);
  await shown.chooseRelease("conversation-17");
  await has(["dialog: Release without an answer?", "button: Keep waiting", "button: Release"]);
  await shown.answer("keep");
  // Changes are announced politely, but the running times are not.
  const told = (text) => until(`told: ${text}`, async () => (await shown.page.$eval("#news[aria-live=polite]", (news) => news.textContent)).includes(text));
  await coordinator.increment("conversation-18", "ask", "And this one?");
  await told("conversation-18 waits");
  await coordinator.run("decrement", "--thread-id", "conversation-18");
  await told("conversation-18 goes on");
  assert.equal(await shown.page.$eval("#threads", (list) => list.closest("[aria-live], [role=status], [role=alert]")), null);
  await coordinator.run("decrement", "--thread-id", "conversation-17");
  await shown.page.close();
});

test("a phone shows all of it without scrolling sideways", async () => {
  const long = "w".repeat(256);
  await coordinator.increment(long, long, "x".repeat(1000), "--ttl", "30s");
  await coordinator.increment("conversation-17", "ask[29620]@laptop", "Delete the branch?");
  const shown = await Watched.open(browser, coordinator.url, { width: 320, height: 640 });
  await shown.live();
  await shown.row("conversation-17");
  await shown.page.waitForSelector("#bars > li");
  const width = () => shown.page.evaluate(() => document.documentElement.scrollWidth);
  assert.equal(await width(), 320);
  // The scroll width does not show which parts are cut off.
  const cut = await shown.page.$$eval("#threads *, #bars *, header *", (parts) => parts.filter((part) => part.getBoundingClientRect().right > 320.5 && part.getClientRects().length && !part.closest("#axis")).map((part) => part.outerHTML.slice(0, 80)));
  assert.deepEqual(cut, []);
  await shown.chooseRelease("conversation-17");
  const dialog = await shown.page.$eval("dialog", (dialog) => dialog.getBoundingClientRect().toJSON());
  assert.ok(dialog.left >= 0 && dialog.right <= 320 && dialog.bottom <= 640, JSON.stringify(dialog));
  await shown.answer("keep");
  for (const thread of [long, "conversation-17"]) await coordinator.run("decrement", "--thread-id", thread);
  await shown.page.close();
});

/** The contrast of two colours (WCAG 2). */
function contrast(one, other) {
  const luminance = (color) => {
    const [r, g, b] = color.match(/\d+(\.\d+)?/g).map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

test("text has a contrast of 4.5 and more, dark and light", async () => {
  await coordinator.increment("conversation-17", "ask", "Delete the branch?");
  const grounds = new Set();
  for (const scheme of ["light", "dark"]) {
    const shown = await Watched.open(browser, coordinator.url);
    await shown.page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await shown.live();
    await shown.row("conversation-17", (row) => row.includes("nobody"));
    await shown.page.waitForSelector("#bars > li");
    await shown.chooseRelease("conversation-17");
    const texts = await shown.page.evaluate(() => {
      const ground = (element) => {
        for (let at = element; at; at = at.parentElement) {
          const color = getComputedStyle(at).backgroundColor;
          if (color !== "rgba(0, 0, 0, 0)") return color;
        }
        return getComputedStyle(document.documentElement).backgroundColor;
      };
      const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT, (node) => (node.data.trim() && node.parentElement.checkVisibility() ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_SKIP));
      const found = [];
      while (walk.nextNode()) {
        const element = walk.currentNode.parentElement;
        found.push([walk.currentNode.data, getComputedStyle(element).color, ground(element)]);
      }
      return found;
    });
    assert.ok(texts.length > 20, `${texts.length}`);
    for (const [text, color, ground] of texts) {
      grounds.add(ground);
      assert.ok(contrast(color, ground) >= 4.5, `${scheme}: ${text}: ${color} on ${ground} has ${contrast(color, ground)}`);
    }
    await shown.page.close();
  }
  assert.ok(grounds.size >= 4, "the schemes differ");
});
