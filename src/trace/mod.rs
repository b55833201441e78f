//! Traces: whose call it is, as W3C Trace Context has it (the headers `traceparent` and `tracestate`).
//!
//! With the feature `otel`, spans are made by the global tracer of OpenTelemetry, if the program has set one, and a context is taken
//! from and put into metadata. Without it all of this is nothing, at no cost.
#[cfg_attr(not(feature = "otel"), path = "off.rs")]
mod on;

#[cfg(feature = "server")]
pub(crate) use on::CallSpan;
#[cfg(feature = "client")]
pub(crate) use on::{Parent, WaitSpan};

#[cfg(all(test, feature = "otel"))]
mod tests;
