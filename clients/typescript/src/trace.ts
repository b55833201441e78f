/** The trace context of OpenTelemetry, which has no instrumentation for Connect. */
import type { ConnectInterceptor } from "./channel-options.js";

/** The part of `@opentelemetry/api` that is used. `C`: its `Context`. */
export interface TraceApi<C> {
  readonly context: { active(): C };
  readonly propagation: {
    inject(context: C, carrier: Headers, setter: { set(carrier: Headers, key: string, value: string): void }): void;
  };
}

/**
 * Sends the context of the active span with every call, as `traceparent` and the other headers of the global propagator:
 * `new Client({ interceptors: [traceContext({ context, propagation })] })`, both from `@opentelemetry/api`.
 */
export function traceContext<C>({ context, propagation }: TraceApi<C>): ConnectInterceptor {
  return (next) => (request) => {
    propagation.inject(context.active(), request.header, { set: (headers, key, value) => headers.set(key, value) });
    return next(request);
  };
}
