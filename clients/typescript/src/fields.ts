/** Limits that are looked at on this side: where the server would never see what was meant, or would refuse others with it. */
import { invalidField } from "./errors.js";

const MOST_BYTES = 256;

/**
 * What the server would refuse, and with it every other thread of a stream.
 *
 * @throws {InvalidFieldError} No thread can have this id.
 */
export function checkThreadId(threadId: string): void {
  checkText("thread_id", threadId);
  const bytes = Buffer.byteLength(threadId);
  const problem =
    bytes === 0
      ? "is empty; allowed: 1 to 256 bytes"
      : bytes > MOST_BYTES
        ? `has ${bytes} bytes; allowed: 1 to 256`
        : /\p{Cc}/u.test(threadId)
          ? "has a control character; allowed: none"
          : undefined;
  if (problem !== undefined) throw invalidField("thread_id", `thread_id ${problem}`);
}

/**
 * What has no UTF-8 would be sent as something else.
 *
 * @throws {InvalidFieldError} It is no string, or half of a surrogate pair is missing.
 */
export function checkText(field: string, value: string): void {
  if (typeof value !== "string") throw invalidField(field, `${field} is no string`);
  if (!value.isWellFormed()) throw invalidField(field, `${field} is no well-formed Unicode`);
}
