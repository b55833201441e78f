/** What `read` gives, and when: on a busy machine a program is taken off the processor between two readings; then they are made again. */
export function atOneMoment<T>(read: () => T): { readonly at: number; readonly value: T } {
  for (;;) {
    const at = performance.now();
    const value = read();
    if (performance.now() - at <= 1) return { at, value };
  }
}
