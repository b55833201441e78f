/** What the stage may ask for, op by op; see clients/scenarios/README.md. */
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import {
  Client,
  ElicitationExpiredError,
  type EndedBy,
  type Hold,
  type PausableTimeout,
  PausableTimeoutError,
  type Watch,
  type WatchEvent,
} from "pausewatch";
import { atOneMoment } from "../support/moment.js";
import { elicitationToWire, eventToWire, type Json, pauseToWire, stateToWire } from "./wire.js";

/** The arguments of an op. Those that it does not use are absent. */
export interface Step {
  readonly id: number;
  readonly do: string;
  readonly client: string;
  readonly hold: string;
  readonly watch: string;
  readonly timeout: string;
  readonly pause: string;
  readonly wait: string;
  readonly address: string;
  readonly environment?: Record<string, string>;
  readonly thread_id: string;
  readonly thread_ids?: string[];
  readonly elicitation_id: string;
  readonly request_id?: string;
  readonly reason?: string;
  readonly holder?: string;
  readonly ttl_ms?: number;
  readonly deadline_ms?: number;
  readonly retries?: number;
  readonly tls_ca?: string;
  readonly token?: string;
  readonly token_file?: string;
  readonly page_size?: number;
  readonly page_token?: string;
  readonly include_running?: boolean;
  readonly include_elicitations?: boolean;
  readonly observer?: boolean;
  readonly disconnect_grace_ms?: number;
  readonly max_wall_ms?: number;
  readonly within_ms: number;
  readonly stay_ms: number;
  readonly work_ms: number;
  readonly limit_ms: number;
  readonly count: number;
  readonly throws: boolean;
  readonly best_effort?: boolean;
}

interface Watching {
  readonly watch: Watch;
  /** A `next` that was not answered in time goes on. */
  pending: Promise<IteratorResult<WatchEvent, undefined>> | undefined;
}

interface Running {
  readonly timeout: PausableTimeout;
  readonly started: number;
  readonly expired: Promise<Json>;
  readonly pauses: Map<string, Disposable>;
  readonly waits: Map<string, Disposable>;
}

export class Player {
  readonly #clients = new Map<string, Client>();
  readonly #holds = new Map<string, Hold>();
  readonly #watches = new Map<string, Watching>();
  readonly #timeouts = new Map<string, Running>();

  readonly #ops: Readonly<Record<string, (step: Step) => Promise<Json> | Json>> = {
    client: ({ client, address, environment = {}, deadline_ms, retries, tls_ca, ...step }) => {
      const token =
        step.token_file === undefined ? step.token : () => readFileSync(step.token_file ?? "", "utf8").trim();
      const options = { address, environment, deadlineMs: deadline_ms, retries, tlsCa: tls_ca, token };
      this.#clients.set(client, Client.fromEnv(options));
      return {};
    },
    close: async (step) => {
      await this.#client(step).close();
      return {};
    },
    increment: async (step) => {
      const { count, paused, revision, elicitation, watchers } = await this.#client(step).incrementElicitation(
        defined({
          threadId: step.thread_id,
          requestId: step.request_id,
          reason: step.reason,
          holder: step.holder,
          ttlMs: step.ttl_ms,
        }),
      );
      return { count, paused, revision: Number(revision), elicitation_id: elicitation.elicitationId, watchers };
    },
    decrement: async (step) => {
      const { thread_id: threadId, elicitation_id: elicitationId, request_id: requestId } = step;
      const answer = await this.#client(step).decrementElicitation(defined({ threadId, elicitationId, requestId }));
      return { ...answer, revision: Number(answer.revision) };
    },
    renew: async (step) => {
      const { thread_id: threadId, elicitation_id: elicitationId, ttl_ms: ttlMs } = step;
      return elicitationToWire(await this.#client(step).renewElicitation(defined({ threadId, elicitationId, ttlMs })));
    },
    get: async (step) => stateToWire(await this.#client(step).getPauseState({ threadId: step.thread_id })),
    list: async (step) => {
      const { page_size: pageSize, page_token: pageToken, include_running: includeRunning } = step;
      const page = await this.#client(step).listPauseStates(defined({ pageSize, pageToken, includeRunning }));
      return { states: page.pauseStates.map(stateToWire), next_page_token: page.nextPageToken };
    },
    list_pauses: async (step) => {
      const { thread_id: threadId, page_size: pageSize, page_token: pageToken } = step;
      const page = await this.#client(step).listPauses(defined({ threadId, pageSize, pageToken }));
      return { pauses: page.pauses.map(pauseToWire), next_page_token: page.nextPageToken };
    },

    hold: async (step) => {
      const { reason, holder, ttl_ms: ttlMs, best_effort: bestEffort } = step;
      const hold = await this.#client(step).hold(step.thread_id, defined({ reason, holder, ttlMs, bestEffort }));
      this.#holds.set(step.hold, hold);
      if (hold.failure !== undefined) return {};
      return { count: hold.opened.count, elicitation_id: hold.elicitation.elicitationId };
    },
    release: async ({ hold }) => releaseToWire(await get(this.#holds, hold).release()),
    lease: ({ hold }) => ({ lease: leaseToWire(get(this.#holds, hold).lease) }),
    lost: async ({ hold }) => ({ lease: leaseToWire(await get(this.#holds, hold).lost()) }),
    hold_block: async (step) => {
      const own = new Error("the block's own");
      let held: Hold | undefined;
      try {
        const options = defined({ ttlMs: step.ttl_ms, bestEffort: step.best_effort });
        await this.#client(step).withHold(step.thread_id, options, async (hold) => {
          held = hold;
          await sleep(step.stay_ms);
          if (step.throws) throw own;
        });
      } catch (error) {
        if (error === own) return { left: "error", ...(held?.released && releaseToWire(held.released)) };
        if (error instanceof ElicitationExpiredError) return { left: "end", ending: "expired" };
        throw error;
      }
      return { left: "end", ...(held?.released && releaseToWire(held.released)) };
    },

    watch: (step) => {
      const { thread_ids: threadIds, include_elicitations: includeElicitations, observer } = step;
      const watch = this.#client(step).watch(threadIds, defined({ includeElicitations, observer }));
      this.#watches.set(step.watch, { watch, pending: undefined });
      return {};
    },
    next: async ({ watch, within_ms }) => {
      const watching = get(this.#watches, watch);
      watching.pending ??= watching.watch.next();
      const waiting = new AbortController();
      const result = await Promise.race([
        watching.pending,
        sleep(within_ms, undefined, { signal: waiting.signal }).catch(() => undefined),
      ]);
      waiting.abort();
      if (result === undefined) return { event: "nothing" };
      watching.pending = undefined;
      if (result.done) throw new Error("the watch is closed");
      return eventToWire(result.value);
    },
    add: ({ watch, thread_id }) => {
      get(this.#watches, watch).watch.add(thread_id);
      return {};
    },
    remove: ({ watch, thread_id }) => {
      get(this.#watches, watch).watch.remove(thread_id);
      return {};
    },
    unwatch: ({ watch }) => {
      get(this.#watches, watch).watch.close();
      return {};
    },

    timeout: (step) => {
      const { thread_id: threadId, max_wall_ms: maxWallMs, disconnect_grace_ms: disconnectGraceMs } = step;
      const timeout = this.#client(step).startTimeout(step.limit_ms, { threadId, maxWallMs, disconnectGraceMs });
      const { at, value: elapsedMs } = atOneMoment(() => timeout.elapsedMs);
      const started = at - elapsedMs;
      const expired = new Promise<Json>((resolve) => {
        timeout.signal.addEventListener("abort", () => resolve(read({ timeout, started })));
      });
      this.#timeouts.set(step.timeout, { timeout, started, expired, pauses: new Map(), waits: new Map() });
      return {};
    },
    read: ({ timeout }) => read(get(this.#timeouts, timeout)),
    expired: ({ timeout }) => get(this.#timeouts, timeout).expired,
    pause: ({ timeout, pause }) => {
      const running = get(this.#timeouts, timeout);
      running.pauses.set(pause, running.timeout.pause());
      return {};
    },
    resume: ({ timeout, pause }) => {
      get(get(this.#timeouts, timeout).pauses, pause)[Symbol.dispose]();
      return {};
    },
    await_thread: ({ timeout, wait, thread_id }) => {
      const running = get(this.#timeouts, timeout);
      running.waits.set(wait, running.timeout.awaitThread(thread_id));
      return {};
    },
    unawait_thread: ({ timeout, wait }) => {
      get(get(this.#timeouts, timeout).waits, wait)[Symbol.dispose]();
      return {};
    },
    stop: ({ timeout }) => {
      const running = get(this.#timeouts, timeout);
      // Before its end: on a busy machine that takes milliseconds, which count as wall time only.
      const answer = read(running);
      running.timeout[Symbol.dispose]();
      return answer;
    },
    expire_together: async (step) => {
      const client = this.#client(step);
      const over = performance.now() + step.limit_ms;
      const timeouts = Array.from({ length: step.count }, (_, i) => {
        const limitMs = Math.max(over - performance.now(), 0);
        return client.startTimeout(limitMs, { threadId: `together-${i}` });
      });
      const expired = timeouts.map(({ signal }) => new Promise((resolve) => signal.addEventListener("abort", resolve)));
      await Promise.all(expired);
      return { late_ms: performance.now() - over };
    },
    timeout_block: async (step) => {
      const started = performance.now();
      const { thread_id: threadId, max_wall_ms: maxWallMs } = step;
      using timeout = this.#client(step).startTimeout(step.limit_ms, { threadId, maxWallMs });
      const work = sleep(step.work_ms, undefined, { signal: timeout.signal });
      const ended = await work.then(
        () => ({ outcome: "finished" }),
        ({ cause }) => {
          if (!(cause instanceof PausableTimeoutError)) throw cause;
          return { outcome: "timed_out", ...endedByToWire(cause.endedBy) };
        },
      );
      return { ...ended, wall_ms: performance.now() - started };
    },

    reset: async () => {
      for (const { timeout } of this.#timeouts.values()) timeout[Symbol.dispose]();
      for (const { watch } of this.#watches.values()) watch.close();
      await Promise.all([...this.#holds.values()].map((hold) => hold[Symbol.asyncDispose]()));
      for (const client of this.#clients.values()) client.close();
      for (const kept of [this.#timeouts, this.#watches, this.#holds, this.#clients]) kept.clear();
      return {};
    },
  };

  async play(step: Step): Promise<Json> {
    const op = this.#ops[step.do];
    if (op === undefined) throw new Error(`there is no op ${JSON.stringify(step.do)}`);
    return await op(step);
  }

  #client(step: Step): Client {
    return get(this.#clients, step.client);
  }
}

function get<T>(kept: ReadonlyMap<string, T>, name: string): T {
  const value = kept.get(name);
  if (value === undefined) throw new Error(`there is nothing named ${JSON.stringify(name)}`);
  return value;
}

function read({ timeout, started }: Pick<Running, "timeout" | "started">): Json {
  const { at, value } = atOneMoment(() => {
    const { elapsedMs, remainingMs, paused, expired, linked, endedBy } = timeout;
    return { charged_ms: elapsedMs, remaining_ms: remainingMs, paused, expired, linked, ...endedByToWire(endedBy) };
  });
  return { wall_ms: at - started, ...value };
}

function endedByToWire(endedBy: EndedBy | undefined): Json {
  return endedBy === undefined ? {} : { ended_by: endedBy === "maxWall" ? "max_wall" : endedBy };
}

function releaseToWire(release: Awaited<ReturnType<Hold["release"]>>): Json {
  if (release.ending === "closed") return { ending: "closed", count: release.count };
  return { ending: release.ending === "notOpen" ? "not_open" : release.ending };
}

function leaseToWire(lease: Hold["lease"]): string {
  return lease === "notOpen" ? "not_open" : lease;
}

/** Without the properties that are undefined. */
function defined<T extends object>(object: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as never;
}
