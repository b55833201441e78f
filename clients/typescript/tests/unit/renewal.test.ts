import assert from "node:assert/strict";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Calls } from "../../src/calls.js";
import { fromStatus } from "../../src/errors.js";
import { ErrorInfoSchema } from "../../src/gen/google/rpc/error_details_pb.js";
import type { Lease } from "../../src/lease.js";
import { Renewal } from "../../src/renewal.js";
import { ManualClock, settled } from "../support/clock.js";
import { codeOf } from "../support/codes.js";
import { known, testEach } from "../support/vectors.js";

interface Step {
  readonly at_ms: number;
  readonly answer?: string;
  readonly expect?: { sent?: number; lease?: Lease };
}

testEach<{ name: string; ttl_ms: number; steps: Step[] }>("renewal.json", async (one) => {
  known(one, "name", "ttl_ms", "steps");
  const clock = new ManualClock();
  const opened = clock.now();
  const underWay: { resolve: (answer: unknown) => void; reject: (error: Error) => void }[] = [];
  let sent = 0;
  let lease: Lease = "held";
  const renew = () => {
    sent++;
    return new Promise((resolve, reject) => underWay.push({ resolve, reject }));
  };
  const calls = { closing: new AbortController().signal, deadlineMs: 5_000, renew } as unknown as Calls;
  const elicitation = { elicitationId: "e", threadId: "t", reason: "", holder: "", createTime: new Date(0) };
  const onLease = (reported: Lease) => {
    lease = reported;
  };
  const renewal = new Renewal(calls, elicitation, one.ttl_ms, opened, onLease, clock);
  for (const step of one.steps) {
    known(step, "at_ms", "answer", "expect");
    await clock.advance(step.at_ms - (clock.now() - opened));
    if (step.answer !== undefined) {
      const renewed = underWay.shift();
      assert.ok(renewed !== undefined, `a renewal is under way at ${step.at_ms}`);
      if (step.answer === "ok") renewed.resolve({});
      else renewed.reject(errorOf(step.answer));
      await settled();
    }
    known(step.expect ?? {}, "sent", "lease");
    assert.deepEqual({ sent, lease, ...step.expect }, { sent, lease }, `at ${step.at_ms}`);
  }
  renewal.stop();
  assert.equal(clock.timers, 0);
});

function errorOf(answer: string): Error {
  const reason = answer.startsWith("ELICITATION_");
  const info = { desc: ErrorInfoSchema, value: { domain: "pausewatch", reason: answer } };
  const code = reason ? Code.NotFound : codeOf(answer);
  return fromStatus(new ConnectError("in words", code, { "grpc-status": "1" }, reason ? [info] : []));
}
