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
  if (typeof value !== "string") throw invalidField(field, `${field} is not a string`);
  if (!value.isWellFormed()) throw invalidField(field, `${field} is not well-formed Unicode`);
}

/**
 * Checks a length of time.
 *
 * @throws {RangeError} It is not a number, or is below 0.
 */
export function checkMs(name: string, ms: number): void {
  checkNumber(name, ms, RangeError);
  // Refuses NaN too.
  if (!(ms >= 0)) throw new RangeError(`${name} is ${ms}; allowed: 0 and more`);
}

/**
 * Checks the type of a length of time. A sum with a string, such as that of an environment variable, would be a text.
 *
 * @throws An error of this kind: it is not a number.
 */
export function checkNumber(name: string, ms: number, kind: new (text: string) => Error): void {
  if (typeof ms !== "number") throw new kind(`${name} has the type ${typeof ms}; allowed: a number of milliseconds`);
}
