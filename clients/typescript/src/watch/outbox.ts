/** What is sent on a stream, as an iteration over what is pushed until it is closed. */
export class Outbox<T> implements AsyncIterable<T> {
  readonly #messages: T[] = [];
  #closed = false;
  #wake: () => void = () => undefined;

  push(message: T): void {
    this.#messages.push(message);
    this.#wake();
  }

  close(): void {
    this.#closed = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    while (!this.#closed) {
      yield* this.#messages.splice(0);
      if (this.#messages.length > 0 || this.#closed) continue;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
