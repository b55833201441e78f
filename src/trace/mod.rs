//! Traces: the span that a call belongs to, as W3C Trace Context (the headers `traceparent` and `tracestate`).
//!
//! With the feature `otel`, spans are made by OpenTelemetry's global tracer, if the program has set one, and contexts
//! are read from and written to metadata. Without the feature, everything here is empty and costs nothing.
#[cfg_attr(not(feature = "otel"), path = "off.rs")]
mod on;

#[cfg(feature = "server")]
pub(crate) use on::CallSpan;
#[cfg(feature = "client")]
pub(crate) use on::{Parent, WaitSpan};

#[cfg(all(test, feature = "otel"))]
mod tests;
