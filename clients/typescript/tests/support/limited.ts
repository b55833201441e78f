/** What a coordinator answers to a call beyond a limit. */
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { DurationSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../src/gen/google/rpc/error_details_pb.js";

/** A `google.rpc.RetryInfo` with this delay, as it is sent. */
export function retryInfo(delay: MessageInitShape<typeof DurationSchema>): Uint8Array {
  const bytes = toBinary(DurationSchema, create(DurationSchema, delay));
  return new BinaryWriter().tag(1, WireType.LengthDelimited).bytes(bytes).finish();
}

/** The refusal, with `retry` as its RetryInfo, or with none. */
export function limited(limit: string, retry?: Uint8Array): ConnectError {
  const metadata = { limit, was: "2", allowed: "1" };
  const info = { desc: ErrorInfoSchema, value: { reason: "LIMIT_EXCEEDED", domain: "pausewatch", metadata } };
  const status = new ConnectError("in words", Code.ResourceExhausted, undefined, [info]);
  if (retry !== undefined) status.details.push({ type: "google.rpc.RetryInfo", value: retry });
  return status;
}
