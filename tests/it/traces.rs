//! Spans as a collector receives them: the trace that calls belong to, and how the trace of a tool shows its wait.
use crate::program::{ended, program};
use crate::support::{Process, timed};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use pausewatch::proto::v1::GetPauseStateRequest;
use rustix::process::Signal;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn traceparent() -> String {
    format!("00-{TRACE}-{PARENT}-01")
}

/// A collector that passes on what it receives.
struct Collector {
    url: String,
    spans: mpsc::UnboundedReceiver<(String, Span)>,
}

struct Service(mpsc::UnboundedSender<(String, Span)>);

fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for of_resource in request.into_inner().resource_spans {
            let service = text(&of_resource.resource.unwrap_or_default().attributes, "service.name");
            let spans = of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans);
            spans.for_each(|span| self.0.send((service.clone(), span)).unwrap_or_default());
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, spans) = mpsc::unbounded_channel();
        let server = tonic::transport::Server::builder().add_service(TraceServiceServer::new(Service(sender)));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Collector { url, spans }
    }

    /// The next span with this name.
    async fn span(&mut self, name: &str) -> Span {
        timed(name, async {
            loop {
                let (service, span) = self.spans.recv().await.unwrap();
                assert_eq!(service, "pausewatch");
                if span.name == name {
                    return span;
                }
            }
        })
        .await
    }
}

fn serve(endpoint: &str) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--otlp-endpoint", endpoint]);
    command.env("OTEL_BSP_SCHEDULE_DELAY", "50");
    Process::start(command)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_call_is_a_span_of_the_trace_that_its_metadata_names() {
    let mut collector = Collector::start().await;
    let server = serve(&collector.url);
    let mut api = server.api().await;
    let mut request = Request::new(GetPauseStateRequest { thread_id: "t".into() });
    request.metadata_mut().insert("traceparent", traceparent().parse().unwrap());
    api.0.get_pause_state(request).await.unwrap();
    let span = collector.span("GetPauseState").await;
    assert_eq!((hex(&span.trace_id).as_str(), hex(&span.parent_span_id).as_str()), (TRACE, PARENT));
    assert_eq!(text(&span.attributes, "rpc.service"), "pausewatch.v1.ElicitationService");
    assert_eq!(text(&span.attributes, "rpc.grpc.status_code"), "0");

    api.try_decrement("t", "", None).await.unwrap_err();
    let alone = collector.span("DecrementElicitation").await;
    assert!(alone.parent_span_id.is_empty() && hex(&alone.trace_id) != TRACE);
    assert_eq!(text(&alone.attributes, "rpc.grpc.status_code"), "9");
}

#[tokio::test]
async fn the_endpoint_for_traces_takes_precedence_over_the_one_for_all_telemetry() {
    let mut collector = Collector::start().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]).env("OTEL_BSP_SCHEDULE_DELAY", "50");
    command.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &collector.url);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let server = Process::start(command);
    server.api().await.try_decrement("t", "", None).await.unwrap_err();
    collector.span("DecrementElicitation").await;
}

#[tokio::test]
async fn a_tools_trace_shows_its_wait() {
    let mut collector = Collector::start().await;
    let server = serve(&collector.url);
    let mut command = program();
    command.args(["hold", "--thread-id", "t", "--reason", "May I?", "--require", "--", "sh", "-c"]);
    command.args(["echo $TRACEPARENT; sleep 0.2"]);
    command.env("PAUSEWATCH_ADDRESS", &server.address).env("TRACEPARENT", traceparent());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    let held = tokio::task::spawn_blocking(move || ended(&mut command)).await.unwrap();
    assert_eq!(held.code, Some(0), "{held:?}");
    let mut spans = Vec::new();
    let names = ["pausewatch.hold", "IncrementElicitation", "DecrementElicitation"];
    timed("three spans", async {
        while spans.len() < 3 {
            let (_, span) = collector.spans.recv().await.unwrap();
            spans.extend(Some(span).filter(|span| names.contains(&span.name.as_str())));
        }
    })
    .await;
    let find = |name: &str| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {spans:?}"));
    let wait = find("pausewatch.hold");
    assert_eq!((hex(&wait.trace_id).as_str(), hex(&wait.parent_span_id).as_str()), (TRACE, PARENT));
    assert_eq!(text(&wait.attributes, "pausewatch.thread_id"), "t");
    assert!(
        wait.end_time_unix_nano - wait.start_time_unix_nano >= 200_000_000,
        "the wait must be as long as the command"
    );
    for call in [find("IncrementElicitation"), find("DecrementElicitation")] {
        assert_eq!((hex(&call.trace_id).as_str(), &call.parent_span_id), (TRACE, &wait.span_id));
    }
    assert_eq!(
        held.out.trim(),
        format!("00-{TRACE}-{}-01", hex(&wait.span_id)),
        "the command must get the span of the wait as its parent"
    );
}

/// Without its own collector, a tool still passes on the trace of its call.
#[tokio::test]
async fn the_context_of_the_environment_is_passed_on() {
    let mut collector = Collector::start().await;
    let server = serve(&collector.url);
    let mut command = program();
    command.args(["get", "--thread-id", "t"]).env("PAUSEWATCH_ADDRESS", &server.address);
    command.env("TRACEPARENT", traceparent());
    let got = tokio::task::spawn_blocking(move || ended(&mut command)).await.unwrap();
    assert_eq!(got.code, Some(0), "{got:?}");
    let span = collector.span("GetPauseState").await;
    assert_eq!((hex(&span.trace_id).as_str(), hex(&span.parent_span_id).as_str()), (TRACE, PARENT));
}

#[tokio::test]
async fn g7_an_unreachable_or_hanging_collector_delays_no_call() {
    let hanging = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let hangs = format!("http://{}", hanging.local_addr().unwrap());
    let away = "http://127.0.0.1:9";
    for endpoint in [away, &hangs] {
        let server = serve(endpoint);
        let mut api = server.api().await;
        // More than its queue can hold.
        for _ in 0..2_500 {
            api.get("t").await;
        }
        drop(api);
        let began = Instant::now();
        server.signal(Signal::TERM);
        let (status, said) = server.end();
        assert!(status.success(), "{said}");
        assert!(began.elapsed() < Duration::from_secs(10), "it ends in time: {:?}", began.elapsed());
        if endpoint == away {
            assert_eq!(said.matches("spans cannot be exported").count(), 1, "{said}");
        }
    }
    // A server that accepted the endpoint would fail to listen, with exit code 1.
    for wrong in ["not a url", "foo", "127.0.0.1:4317", "ftp://h:1"] {
        let refused =
            ended(program().args(["serve", "--listen", "unix:/proc/nonexistent/p.sock", "--otlp-endpoint", wrong]));
        assert_eq!((refused.code, refused.err.contains(wrong)), (Some(2), true), "{refused:?}");
    }
}
