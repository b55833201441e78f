// Chromium, its pages, and functions that wait for what they show.
import puppeteer from "puppeteer-core";

/** The deadline of one condition. It is long, because the machine may be busy: no test here checks speed. */
const DEADLINE = 60_000;

/** `isOpen` turns off what Chromium blocks by itself, so that the coordinator must refuse it. */
export function launch({ isOpen = false } = {}) {
  const features = isOpen ? ["--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests"] : [];
  return puppeteer.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    protocolTimeout: 3 * DEADLINE,
    // Chromium's own sandbox does not work as root, and a container has little shared memory.
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--host-resolver-rules=MAP evil.test 127.0.0.1", ...features],
  });
}

/** Polls until `condition` returns a true value; returns it. */
export async function until(what, condition) {
  const end = Date.now() + DEADLINE;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** A page of the coordinator, and Chromium's error messages about it. */
export class Watched {
  static async open(browser, url, { width = 1100, height = 900 } = {}) {
    const made = new Watched();
    made.page = await browser.newPage();
    made.page.setDefaultTimeout(DEADLINE);
    made.complaints = [];
    made.page.on("console", (message) => {
      if (/Content Security|Trusted/i.test(message.text())) made.complaints.push(message.text());
    });
    made.page.on("dialog", (dialog) => {
      made.complaints.push(`a dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    made.page.on("pageerror", (error) => made.complaints.push(error.message));
    await made.page.setViewport({ width, height });
    await made.page.goto(url);
    return made;
  }

  /** As if the person switched to another tab, or back. */
  hide(isHidden) {
    return this.page.evaluate((isHidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }, isHidden);
  }

  link(state) {
    return this.page.waitForFunction((state) => document.body.dataset.link === state, {}, state);
  }

  live() {
    return this.link("live");
  }

  /** The text of each displayed thread. */
  rows() {
    return this.page.$$eval("#threads > li", (rows) => rows.map((row) => row.innerText));
  }

  /** The text of the one thread that contains `text`, as soon as it fulfils the condition. */
  row(text, fulfils = () => true) {
    return until(`a thread with ${text}: ${fulfils}`, async () => (await this.rows()).find((row) => row.includes(text) && fulfils(row)));
  }

  gone(text) {
    return until(`no thread with ${text}`, async () => !(await this.rows()).some((row) => row.includes(text)));
  }

  text(selector) {
    return this.page.$eval(selector, (element) => element.innerText);
  }

  /** Clicks the release button of the thread that contains `text`; by script, because its row may move. */
  async chooseRelease(text) {
    await this.page.waitForFunction((text) => [...document.querySelectorAll("#threads > li")].some((row) => row.innerText.includes(text) && row.querySelector("button:not([hidden])")), {}, text);
    await this.page.evaluate((text) => [...document.querySelectorAll("#threads > li")].find((row) => row.innerText.includes(text)).querySelector("button").click(), text);
    await this.page.waitForSelector("dialog[open]");
  }

  async answer(value) {
    await this.page.click(`dialog button[value="${value}"]`);
    await this.page.waitForSelector("dialog:not([open])");
  }
}
