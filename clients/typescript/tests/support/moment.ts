/**
 * Returns the result of `read`, and when it was read. If a busy machine interrupts the program between the two
 * readings, both are repeated.
 */
export function atOneMoment<T>(read: () => T): { readonly at: number; readonly value: T } {
  for (;;) {
    const at = performance.now();
    const value = read();
    if (performance.now() - at <= 1) return { at, value };
  }
}
