/**
 * Callbacks of abort signals.
 *
 * 1. A signal has one listener of this library, however many calls use it: Node warns of a leak from the eleventh listener on.
 * 2. A signal that is aborted before the callback is added counts too. So no abort is lost between a check and the callback.
 * 3. The reason is read from the signal, not from the event: with several listeners, Node clears the event's `currentTarget` after the first.
 */

type Callback = (signal: AbortSignal) => void;

/** The callbacks of each signal that has some. */
const callbacks = new WeakMap<AbortSignal, Set<Callback>>();

/**
 * Calls `callback` once, with the reason of the first of these signals that is aborted; at once if one of them is aborted already. Returns a
 * function that ends this. `callback` must not throw.
 */
export function onAbort(
  signals: readonly (AbortSignal | undefined)[],
  callback: (reason: unknown) => void,
): () => void {
  const given = signals.filter((signal) => signal !== undefined);
  const aborted = given.find((signal) => signal.aborted);
  if (aborted !== undefined) {
    callback(aborted.reason);
    return () => undefined;
  }
  const leaves = given.map((signal) =>
    join(signal, ({ reason }) => {
      stop();
      callback(reason);
    }),
  );
  const stop = () => {
    for (const leave of leaves) leave();
  };
  return stop;
}

function join(signal: AbortSignal, callback: Callback): () => void {
  const all = callbacks.get(signal) ?? new Set();
  if (all.size === 0) {
    callbacks.set(signal, all);
    signal.addEventListener("abort", callAll);
  }
  all.add(callback);
  return () => {
    if (!all.delete(callback) || all.size > 0) return;
    callbacks.delete(signal);
    signal.removeEventListener("abort", callAll);
  };
}

/** A function, not an arrow: `this` is the signal. */
function callAll(this: AbortSignal): void {
  const all = callbacks.get(this);
  // One of them may end another one.
  for (const callback of [...(all ?? [])]) if (all?.has(callback)) callback(this);
}
