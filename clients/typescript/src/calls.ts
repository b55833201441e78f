/**
 * The RPCs over one lane of a channel: each with a deadline, retries that count once, and its result in JavaScript's own types.
 */
import { randomUUID } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient, type Client as Stub } from "@connectrpc/connect";
import type { CallOptions } from "./call-options.js";
import type { Channel } from "./channel.js";
import { invalidField, malformedAnswer } from "./errors.js";
import { checkNumber, checkText } from "./fields.js";
import { ElicitationService, type WatchRequestSchema } from "./gen/pausewatch/v1/elicitation_service_pb.js";
import {
  type DecrementRequest,
  type DecrementResponse,
  dateOf,
  dateToWire,
  durationToWire,
  type Elicitation,
  elicitationOf,
  type IncrementRequest,
  type IncrementResponse,
  type ListPausesRequest,
  type ListPausesResponse,
  type ListRequest,
  type ListResponse,
  type PauseState,
  pauseOf,
  pauseStateOf,
  type RenewRequest,
} from "./messages.js";
import { type CallLimits, type CallTarget, unary } from "./retry.js";
import { bearer } from "./token.js";

type WithThread<R> = R & { readonly threadId: string };

export class Calls implements CallTarget {
  readonly closing: AbortSignal;
  readonly keepsAlive: boolean;
  readonly channel: Channel;
  readonly #stub: Stub<typeof ElicitationService>;
  readonly #limits: CallLimits;

  /** `closing`: ends the calls when it is aborted. */
  constructor(channel: Channel, lane: "foreground" | "background", limits: CallLimits, closing: AbortSignal) {
    this.channel = channel;
    this.closing = closing;
    this.keepsAlive = lane === "foreground";
    this.#stub = createClient(ElicitationService, channel[lane]);
    this.#limits = limits;
  }

  /** The default deadline of a call. */
  get deadlineMs(): number {
    return this.#limits.deadlineMs;
  }

  async increment(request: WithThread<IncrementRequest>, options?: CallOptions): Promise<IncrementResponse> {
    const { threadId, reason = "", holder = "", ttlMs } = request;
    const requestId = request.requestId || randomUUID();
    checkTexts({ thread_id: threadId, request_id: requestId, reason, holder });
    const ttl = ttlMs === undefined ? {} : { ttl: durationToWire("ttl", ttlMs) };
    const message = { threadId, requestId, reason, holder, ...ttl };
    const answer = await unary(this, this.#with(options), (limits) => this.#stub.incrementElicitation(message, limits));
    const { count, paused, revision, elicitation, watchers } = answer;
    return { count, paused, revision, elicitation: elicitationOf(present(elicitation)), watchers };
  }

  /** `retries`: in place of those of the client. */
  async decrement(
    request: WithThread<DecrementRequest>,
    options?: CallOptions,
    retries?: number,
  ): Promise<DecrementResponse> {
    const { threadId, elicitationId } = request;
    const requestId = request.requestId || randomUUID();
    checkTexts({ thread_id: threadId, request_id: requestId, elicitation_id: elicitationId ?? "" });
    const message = { threadId, requestId, ...(elicitationId === undefined ? {} : { elicitationId }) };
    const answer = await unary(this, this.#with(options, retries), (limits) =>
      this.#stub.decrementElicitation(message, limits),
    );
    const { count, paused, revision } = answer;
    return { count, paused, revision };
  }

  async renew(request: WithThread<RenewRequest>, options?: CallOptions): Promise<Elicitation> {
    const { threadId, elicitationId, ttlMs } = request;
    checkTexts({ thread_id: threadId, elicitation_id: elicitationId });
    const message = { threadId, elicitationId, ...(ttlMs === undefined ? {} : { ttl: durationToWire("ttl", ttlMs) }) };
    const answer = await unary(this, this.#with(options), (limits) => this.#stub.renewElicitation(message, limits));
    return elicitationOf(present(answer.elicitation));
  }

  async get(threadId: string, options?: CallOptions): Promise<PauseState> {
    checkTexts({ thread_id: threadId });
    const answer = await unary(this, this.#with(options), (limits) => this.#stub.getPauseState({ threadId }, limits));
    return pauseStateOf(present(answer.pauseState));
  }

  async list(request: ListRequest, options?: CallOptions): Promise<ListResponse> {
    const { pageSize = 0, pageToken = "", includeRunning = false } = request;
    checkTexts({ page_token: pageToken });
    checkPageSize(pageSize);
    const message = { pageSize, pageToken, includeRunning };
    const answer = await unary(this, this.#with(options), (limits) => this.#stub.listPauseStates(message, limits));
    return { pauseStates: answer.pauseStates.map(pauseStateOf), nextPageToken: answer.nextPageToken };
  }

  async listPauses(request: ListPausesRequest, options?: CallOptions): Promise<ListPausesResponse> {
    const { threadId = "", startTime, endTime, pageSize = 0, pageToken = "" } = request;
    checkTexts({ thread_id: threadId, page_token: pageToken });
    checkPageSize(pageSize);
    const times = {
      ...(startTime === undefined ? {} : { startTime: dateToWire("start_time", startTime) }),
      ...(endTime === undefined ? {} : { endTime: dateToWire("end_time", endTime) }),
    };
    const message = { threadId, pageSize, pageToken, ...times };
    const answer = await unary(this, this.#with(options), (limits) => this.#stub.listPauses(message, limits));
    const { pauses, nextPageToken, historyStartTime } = answer;
    return { pauses: pauses.map(pauseOf), nextPageToken, historyStartTime: dateOf(historyStartTime) };
  }

  /** Opens one stream of states. It ends when the connection is lost or `signal` is aborted; it has no deadline. */
  watch(
    requests: AsyncIterable<MessageInitShape<typeof WatchRequestSchema>>,
    signal: AbortSignal,
    token: string | undefined,
  ) {
    return this.#stub.watch(
      requests,
      token === undefined ? { signal } : { signal, headers: { authorization: bearer(token) } },
    );
  }

  #with(options: CallOptions = {}, retries: number = this.#limits.retries): CallLimits {
    const { deadlineMs = this.#limits.deadlineMs, signal } = options;
    checkNumber("deadlineMs", deadlineMs, RangeError);
    return { retries, deadlineMs, signal };
  }
}

function checkTexts(texts: Readonly<Record<string, string>>): void {
  for (const [field, text] of Object.entries(texts)) checkText(field, text);
}

function checkPageSize(pageSize: number): void {
  if ((pageSize | 0) !== pageSize) throw invalidField("page_size", `page_size is ${pageSize}; allowed: whole numbers`);
}

/** Returns a part of an answer that every coordinator sends; throws if it is missing. */
function present<T>(part: T | undefined): T {
  if (part === undefined) throw malformedAnswer();
  return part;
}
