//! Exports spans to a collector, by OTLP over gRPC, on a separate thread and runtime: if the collector is slow or
//! unreachable, only the spans that exceed its queue of 2,048 are lost.
//!
//! Everything else is set by OpenTelemetry's environment variables: `OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`,
//! `OTEL_EXPORTER_OTLP_HEADERS` and so on.
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tonic::transport::Uri;

/// How long the end of the process waits for the last spans.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Exports spans until it is dropped.
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    /// Dropping it ends the runtime of the exporter.
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// The environment variable for the endpoint: the one for traces alone, if it is set, else the one for all telemetry.
pub(crate) fn variable() -> &'static str {
    const OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    match std::env::var_os(OF_TRACES).is_some_and(|value| !value.is_empty()) {
        true => OF_TRACES,
        false => "OTEL_EXPORTER_OTLP_ENDPOINT",
    }
}

/// The endpoint for spans that the environment sets.
pub(crate) fn endpoint() -> Option<String> {
    std::env::var(variable()).ok().filter(|value| !value.is_empty())
}

/// Checks the URL of a collector. Without this, the exporter accepts an invalid URL, and every export fails.
pub(crate) fn parse_endpoint(text: &str) -> Result<String, String> {
    let is_http = |url: &Uri| matches!(url.scheme_str(), Some("http" | "https"));
    let has_host = |url: &Uri| url.host().is_some_and(|host| !host.is_empty());
    let has_user = |url: &Uri| url.authority().is_some_and(|authority| authority.as_str().contains('@'));
    match text.parse::<Uri>() {
        // Options are logged, and a URL with a user may contain a password.
        Ok(url) if has_user(&url) => Err("expected no user in it: set OTEL_EXPORTER_OTLP_HEADERS instead".into()),
        Ok(url) if is_http(&url) && has_host(&url) => Ok(text.to_owned()),
        _ => Err("expected http://HOST:PORT or https://HOST:PORT".into()),
    }
}

/// Starts to export to `endpoint`, such as `http://127.0.0.1:4317`. `None`: the environment disables it
/// (`OTEL_SDK_DISABLED`).
///
/// # Errors
/// The endpoint is invalid, or the system cannot start a thread.
pub(crate) fn start(endpoint: &str) -> Result<Option<Traces>, String> {
    if std::env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let (built, provider) = mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let endpoint = parse_endpoint(endpoint)?;
    let export = move || {
        let runtime = match super::runtime::start() {
            Ok(runtime) => runtime,
            Err(error) => return drop(built.send(Err(error.to_string()))),
        };
        runtime.block_on(async {
            let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
            let _ = built.send(exporter.map(provide).map_err(|error| error.to_string()));
            let _ = stopped.await;
        });
    };
    thread::Builder::new().name("traces".into()).spawn(export).map_err(|error| error.to_string())?;
    let provider = provider.recv().map_err(|_| "its thread ended".to_owned())??;
    opentelemetry::global::set_tracer_provider(provider.clone());
    Ok(Some(Traces { provider, _stop: stop }))
}

fn provide(exporter: SpanExporter) -> SdkTracerProvider {
    let resource = Resource::builder();
    let resource = match std::env::var_os("OTEL_SERVICE_NAME").is_some_and(|name| !name.is_empty()) {
        true => resource,
        false => resource.with_service_name("pausewatch"),
    };
    let exporter = Reported { exporter, is_failing: AtomicBool::new(false) };
    SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build()
}

/// Logs when exports begin to fail, and when they succeed again, because the SDK does not.
#[derive(Debug)]
struct Reported {
    exporter: SpanExporter,
    is_failing: AtomicBool,
}

impl opentelemetry_sdk::trace::SpanExporter for Reported {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exported = self.exporter.export(batch).await;
        let was_failing = self.is_failing.swap(exported.is_err(), Ordering::Relaxed);
        match &exported {
            Err(error) if !was_failing => tracing::warn!(%error, "spans cannot be exported, and are dropped"),
            Ok(()) if was_failing => tracing::info!("spans are exported again"),
            _ => {}
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown_with_timeout(LAST_WORDS) {
            tracing::debug!(%error, "the last spans were not exported");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse_endpoint;

    #[test]
    fn a_collector_has_a_url_with_scheme_and_host() {
        for good in ["http://127.0.0.1:4317", "https://collector.example", "HTTP://[::1]:4317/", "http://h:1/path"] {
            assert_eq!(parse_endpoint(good), Ok(good.to_owned()));
        }
        for bad in [
            "",
            "not a url",
            "foo",
            "127.0.0.1:4317",
            "ftp://h:1",
            "unix:/c.sock",
            "http://",
            "http://:4317",
            "http://a:b@h:1",
        ] {
            assert!(parse_endpoint(bad).is_err(), "{bad}");
        }
    }
}
