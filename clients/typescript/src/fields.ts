/** The checks of this library: for values that would be sent incorrectly, or whose refusal would affect other threads of a stream. */
import { invalidField } from "./errors.js";

const MAX_BYTES = 256;

/**
 * Checks a thread id. The server would end a stream because of an invalid id, with every other thread on it.
 *
 * @throws {InvalidFieldError} The id is not valid.
 */
export function checkThreadId(threadId: string): void {
  checkText("thread_id", threadId);
  const bytes = Buffer.byteLength(threadId);
  const problem =
    bytes === 0
      ? "is empty; allowed: 1 to 256 bytes"
      : bytes > MAX_BYTES
        ? `has ${bytes} bytes; allowed: 1 to 256`
        : /\p{Cc}/u.test(threadId)
          ? "has a control character; allowed: none"
          : undefined;
  if (problem !== undefined) throw invalidField("thread_id", `thread_id ${problem}`);
}

/**
 * Checks a text. A text without a UTF-8 encoding would be sent as another text.
 *
 * @throws {InvalidFieldError} It is not a string, or half of a surrogate pair is missing.
 */
export function checkText(field: string, value: string): void {
  if (typeof value !== "string") throw invalidField(field, `${field} is no string`);
  if (!value.isWellFormed()) throw invalidField(field, `${field} is no well-formed Unicode`);
}
