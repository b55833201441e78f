//! A real `pausewatch serve` with its own data and address, and the stage's own connection to it.
//!
//! 1. A restarted server has the same data and the same address; while it is down, its port stays reserved.
//! 2. The stage calls it with the generated stub, not with a client library, because the library is under test.
//! 3. The stage calls a secure server over a Unix socket, with its own token.
use crate::{
    case::{Case, Listen},
    proxy::Port,
    secrets::Secrets,
    wire,
};
use pausewatch::proto::v1::{self, elicitation_service_client::ElicitationServiceClient};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use std::{io, net::SocketAddr, path::PathBuf, process::Stdio, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, ChildStdout, Command},
    time::timeout,
};
use tonic::{
    Request, Status,
    transport::{Channel, Endpoint},
};

/// Nothing that a server does by itself takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    directory: TempDir,
    port: Option<Port>,
    options: Vec<String>,
    pub(crate) secrets: Option<Secrets>,
    running: Option<Running>,
}

struct Running {
    child: Child,
    /// Kept open, because the server may print more.
    _out: BufReader<ChildStdout>,
    stub: ElicitationServiceClient<Channel>,
}

/// The program under test: by default the one that was built with this stage.
fn program() -> PathBuf {
    let told = std::env::var_os("PAUSEWATCH_PROGRAM").filter(|program| !program.is_empty());
    told.map_or_else(|| env!("CARGO_BIN_EXE_pausewatch").into(), PathBuf::from)
}

impl Server {
    pub(crate) async fn start(case: &Case) -> Result<Self, String> {
        let prepare = || -> io::Result<Self> {
            let directory = tempfile::Builder::new().prefix("scenario-").tempdir()?;
            let port = (case.listen == Listen::Tcp).then(Port::reserve).transpose()?;
            Ok(Server { directory, port, options: case.serve.clone(), secrets: None, running: None })
        };
        let mut server = prepare().map_err(|error| format!("prepare a server: {error}"))?;
        if case.secure {
            let secrets = Secrets::make(&program(), server.directory.path()).await?;
            server.options.extend(secrets.options());
            server.options.extend(["--listen".to_owned(), server.socket_address()]);
            server.secrets = Some(secrets);
        }
        server.run().await?;
        Ok(server)
    }

    pub(crate) fn address(&self) -> String {
        let scheme = if self.secrets.is_some() { "https://" } else { "" };
        format!("{scheme}{}", self.listen())
    }

    fn listen(&self) -> String {
        self.port.as_ref().map_or_else(|| self.socket_address(), |port| port.address.to_string())
    }

    /// The port that a proxy connects to.
    pub(crate) fn port(&self) -> Option<SocketAddr> {
        self.port.as_ref().map(|port| port.address)
    }

    fn socket_address(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub(crate) async fn run(&mut self) -> Result<(), String> {
        if self.running.is_some() {
            return Err("the server runs already".to_owned());
        }
        let mut command = Command::new(program());
        command.args(["serve", "--listen", &self.listen()]).args(&self.options).kill_on_drop(true);
        if !self.options.iter().any(|option| option == "--store") {
            command.args(["--store", "embedded", "--data-dir"]).arg(self.directory.path().join("data"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("start {}: {error}", program().display()))?;
        let mut out = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let mut line = String::new();
        let listens = timeout(PATIENCE, out.read_line(&mut line)).await;
        if !matches!(listens, Ok(Ok(_))) || !line.starts_with("listening ") {
            let _ = child.start_kill();
            return Err(format!("the server does not listen: {}", said(&mut child).await));
        }
        let stub = ElicitationServiceClient::new(self.channel().connect_lazy());
        self.running = Some(Running { child, _out: out, stub });
        Ok(())
    }

    fn channel(&self) -> Endpoint {
        let address = match self.port.as_ref().filter(|_| self.secrets.is_none()) {
            Some(port) => format!("http://{}", port.address),
            None => format!("unix://{}", self.socket().display()),
        };
        Endpoint::from_shared(address).expect("an address").timeout(PATIENCE)
    }

    /// Stops the server, and waits for its end.
    pub(crate) async fn stop(&mut self, how: &str) -> Result<(), String> {
        let Some(Running { mut child, .. }) = self.running.take() else { return Err("no server runs".to_owned()) };
        let signal = match how {
            "term" => Signal::TERM,
            "kill" => Signal::KILL,
            other => return Err(format!("a server is stopped by term or kill, not by {other:?}")),
        };
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let Some(pid) = pid else { return Err(format!("the server had ended: {}", said(&mut child).await)) };
        kill_process(pid, signal).map_err(|error| format!("stop the server: {error}"))?;
        match timeout(PATIENCE, child.wait()).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(format!("the server does not end within {PATIENCE:?} of {how}")),
        }
    }

    /// Makes a call for the stage, with the same arguments as the players'.
    pub(crate) async fn call(&self, op: &str, arguments: &Map<String, Value>) -> Result<Value, String> {
        let running = self.running.as_ref().ok_or("no server runs")?;
        let mut stub = running.stub.clone();
        let text = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let thread_id = text("thread_id");
        let answer = match op {
            "increment" => {
                let ttl = arguments.get("ttl_ms").and_then(Value::as_f64).map(wire::wire_duration);
                let (request_id, reason, holder) = (text("request_id"), text("reason"), text("holder"));
                let request = v1::IncrementElicitationRequest { thread_id, request_id, reason, holder, ttl };
                stub.increment_elicitation(self.request(request)?)
                    .await
                    .map(|response| wire::opened(response.get_ref()))
            }
            "decrement" => {
                let elicitation_id = arguments.get("elicitation_id").map(|_| text("elicitation_id"));
                let request_id = text("request_id");
                let request = v1::DecrementElicitationRequest { thread_id, elicitation_id, request_id };
                stub.decrement_elicitation(self.request(request)?)
                    .await
                    .map(|response| wire::closed(response.get_ref()))
            }
            _ => {
                let request = self.request(v1::GetPauseStateRequest { thread_id })?;
                stub.get_pause_state(request).await.and_then(|response| {
                    let state = response.into_inner().pause_state;
                    state.map(|state| wire::state(&state)).ok_or_else(|| Status::internal("no state in the answer"))
                })
            }
        };
        answer.map_err(|status| format!("the stage's own {op}: {status}"))
    }

    fn request<T>(&self, message: T) -> Result<Request<T>, String> {
        let mut request = Request::new(message);
        if let Some(secrets) = &self.secrets {
            let bearer = format!("Bearer {}", secrets.admin).parse().map_err(|error| format!("a token: {error}"))?;
            request.metadata_mut().insert("authorization", bearer);
        }
        Ok(request)
    }

    /// Alternates increments and decrements; returns the last revision.
    pub(crate) async fn flip(&self, thread_id: &str, times: u64) -> Result<Value, String> {
        let arguments = Map::from_iter([("thread_id".to_owned(), thread_id.into())]);
        let mut revision = Value::Null;
        for time in 0..times {
            let op = if time % 2 == 0 { "increment" } else { "decrement" };
            revision = self.call(op, &arguments).await?["revision"].take();
        }
        Ok(json!({ "revision": revision }))
    }

    /// Kills it; returns its standard error.
    pub(crate) async fn end(mut self) -> String {
        let Some(mut running) = self.running.take() else { return String::new() };
        let _ = running.child.start_kill();
        said(&mut running.child).await
    }
}

async fn said(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = timeout(PATIENCE, stderr.read_to_string(&mut text)).await;
    }
    let _ = child.wait().await;
    text
}
