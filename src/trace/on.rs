//! With OpenTelemetry.
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanKind, TraceContextExt, TraceFlags};
#[cfg(feature = "client")]
use opentelemetry::trace::{Status, Tracer};
#[cfg(any(feature = "client", feature = "server"))]
use opentelemetry::{KeyValue, global};
#[cfg(feature = "client")]
use tonic::metadata::MetadataMap;

/// The name of this library's tracer.
const TRACER: &str = "pausewatch";

/// The value of `traceparent` for a span. `None`: the context is invalid.
#[cfg(feature = "client")]
pub(super) fn written(context: &SpanContext) -> Option<String> {
    let flags = context.trace_flags() & TraceFlags::SAMPLED;
    let text = || format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), flags.to_u8());
    context.is_valid().then(text)
}

/// Reads `traceparent`, and `tracestate` if it is valid. `None`: `traceparent` is invalid.
#[cfg(any(feature = "server", feature = "otlp", test))]
pub(super) fn read(parent: &str, state: Option<&str>) -> Option<SpanContext> {
    use opentelemetry::trace::{SpanId, TraceId, TraceState};
    let mut parts = parent.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    // A later version may have more parts.
    let known = is_hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
    if !(known && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2)) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let state = state.and_then(|state| state.parse().ok()).unwrap_or(TraceState::NONE);
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    Some(SpanContext::new(trace, span, flags, true, state)).filter(SpanContext::is_valid)
}

/// The span that calls are made within.
#[cfg(feature = "client")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Parent(Context);

#[cfg(feature = "client")]
impl Parent {
    /// The current context.
    pub(crate) fn current() -> Self {
        Parent(Context::current())
    }

    pub(crate) fn of(context: Context) -> Self {
        Parent(context)
    }

    /// The context in the environment, from the parent process.
    #[cfg(feature = "otlp")]
    pub(crate) fn of_environment() -> Option<Self> {
        let read = read(&std::env::var("TRACEPARENT").ok()?, std::env::var("TRACESTATE").ok().as_deref());
        read.map(|context| Parent(Context::new().with_remote_span_context(context)))
    }

    /// The value of `traceparent`.
    pub(crate) fn text(&self) -> Option<String> {
        written(self.0.span().span_context())
    }

    /// Writes it to the metadata of a call.
    pub(crate) fn write(&self, metadata: &mut MetadataMap) {
        let Some(parent) = self.text().and_then(|text| text.parse().ok()) else { return };
        metadata.insert("traceparent", parent);
        let state = self.0.span().span_context().trace_state().header();
        if let Some(state) = Some(state).filter(|state| !state.is_empty()).and_then(|state| state.parse().ok()) {
            metadata.insert("tracestate", state);
        }
    }
}

/// The span of a hold: the wait for a person.
#[cfg(feature = "client")]
#[derive(Debug)]
pub(crate) struct WaitSpan(Context);

#[cfg(feature = "client")]
impl WaitSpan {
    pub(crate) fn begin(parent: &Parent, thread_id: &str, reason: &str) -> Self {
        let attributes = [("pausewatch.thread_id", thread_id), ("pausewatch.reason", reason)];
        let attributes = attributes.map(|(key, value)| KeyValue::new(key, value.to_owned()));
        let tracer = global::tracer(TRACER);
        let span = tracer.span_builder("pausewatch.hold").with_kind(SpanKind::Internal).with_attributes(attributes);
        WaitSpan(parent.0.with_span(span.start_with_context(&tracer, &parent.0)))
    }

    /// The context for the calls of the hold. Without tracing, it is the context in which the hold was opened.
    pub(crate) fn within(&self) -> Parent {
        Parent(self.0.clone())
    }

    pub(crate) fn fail(&self, why: &str) {
        self.0.span().set_status(Status::error(why.to_owned()));
    }

    pub(crate) fn end(&self) {
        self.0.span().end();
    }
}

#[cfg(feature = "client")]
impl Drop for WaitSpan {
    fn drop(&mut self) {
        self.end();
    }
}

/// The span of a call on the server. It ends when this is dropped.
#[cfg(feature = "server")]
pub(crate) struct CallSpan(Option<global::BoxedSpan>);

#[cfg(feature = "server")]
impl CallSpan {
    /// If not `wanted`, it is empty and costs nothing.
    pub(crate) fn begin(wanted: bool, headers: &http::HeaderMap, rpc: &'static str) -> Self {
        use opentelemetry::trace::Tracer;
        if !wanted {
            return CallSpan(None);
        }
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let parent = text("traceparent").and_then(|parent| read(parent, text("tracestate")));
        let parent = parent.map_or_else(Context::new, |parent| Context::new().with_remote_span_context(parent));
        let attributes =
            [("rpc.system", "grpc"), ("rpc.service", "pausewatch.v1.ElicitationService"), ("rpc.method", rpc)];
        let attributes = attributes.map(|(key, value)| KeyValue::new(key, value));
        let tracer = global::tracer(TRACER);
        let span = tracer.span_builder(rpc).with_kind(SpanKind::Server).with_attributes(attributes);
        CallSpan(Some(span.start_with_context(&tracer, &parent)))
    }

    pub(crate) fn end(&mut self, code: i32) {
        use opentelemetry::trace::Span;
        if let Some(mut span) = self.0.take() {
            span.set_attribute(KeyValue::new("rpc.grpc.status_code", i64::from(code)));
            // The codes of server errors: UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS.
            if matches!(code, 2 | 4 | 12..=15) {
                span.set_status(opentelemetry::trace::Status::error(""));
            }
            span.end();
        }
    }
}
