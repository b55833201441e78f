//! MCP: one caller, from its calls to the tools and back.
//!
//! 1. What the caller did wrong is an answer that a model can read (`isError`); an error of the protocol is only what no
//!    tool can answer.
//! 2. A call that is cancelled ends what was started for it.
use super::{ExecServer, tools};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde::Serialize;
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use tokio_util::sync::CancellationToken;

/// What a call may name its thread with, in `_meta`.
const THREAD_KEYS: [&str; 4] = ["pausewatch/threadId", "pausewatch/thread_id", "threadId", "thread_id"];

const INSTRUCTIONS: &str = "\
Commands run here under time limits that stand still while a person is being asked something, so ask for the time that the \
work itself needs. In each answer, wall_ms = active_ms + paused_ms: a large paused_ms means that a person took their time, \
timed_out that the command itself was too slow, denied that it was not run at all (do not try to get around that).";

/// One who calls: an MCP session. Its commands end with it.
#[derive(Debug)]
pub struct Caller {
    pub(super) server: Arc<ExecServer>,
    pub(super) number: u64,
    /// The thread of calls that name none.
    thread_id: String,
    /// It has gone.
    pub(super) gone: CancellationToken,
}

/// What a tool answers that cannot do what it was asked for: what to do instead.
pub(super) struct Refusal(pub(super) String);

impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

pub(super) type Context = RequestContext<RoleServer>;

impl Caller {
    /// A new one.
    pub fn new(server: &Arc<ExecServer>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let thread_id = server.config.thread_id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let number = NUMBERS.fetch_add(1, Relaxed);
        Self { server: server.clone(), number, thread_id, gone: server.shutdown.child_token() }
    }

    /// The thread that a call belongs to.
    pub(super) fn thread_id(&self, context: &Context) -> Result<String, Refusal> {
        let named = THREAD_KEYS.iter().find_map(|key| context.meta.get(*key));
        match named {
            None | Some(Value::Null) => Ok(self.thread_id.clone()),
            Some(Value::String(thread_id)) => Ok(thread_id.clone()),
            Some(_) => Err(Refusal("the thread id in _meta is no string".to_owned())),
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.gone.cancel();
    }
}

/// The directory to run a command in.
pub(super) fn workdir(named: Option<&str>) -> Result<PathBuf, Refusal> {
    let named = named.unwrap_or(".");
    let directory =
        std::path::absolute(Path::new(named)).map_err(|error| Refusal(format!("workdir {named:?}: {error}")))?;
    match std::fs::metadata(&directory) {
        Ok(metadata) if metadata.is_dir() => Ok(directory),
        Ok(_) => Err(Refusal(format!("workdir {named:?} is no directory"))),
        Err(error) => Err(Refusal(format!("workdir {named:?}: {error}"))),
    }
}

impl ServerHandler for Caller {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(
                Implementation::new("pausewatch", env!("CARGO_PKG_VERSION")).with_title("pausewatch exec server"),
            )
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: Context) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::list().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        let answered = match &*request.name {
            "shell" => self.shell(request, &context).await,
            "exec_command" => self.exec_command(request, &context).await,
            "write_stdin" => self.write_stdin(request, &context).await.map(structured),
            "kill" => self.kill(request, &context).await.map(structured),
            "sessions" => self.sessions(request).map(structured),
            unknown => {
                let names: Vec<_> = tools::list().into_iter().map(|tool| tool.name).collect();
                return Err(ErrorData::invalid_params(
                    format!("unknown tool {unknown:?}: there are {}", names.join(", ")),
                    None,
                ));
            }
        };
        Ok(answered.unwrap_or_else(|Refusal(why)| CallToolResult::error(vec![ContentBlock::text(why)]).into()))
    }
}

pub(super) fn structured(answer: impl Serialize) -> CallToolResponse {
    match serde_json::to_value(answer) {
        Ok(value) => CallToolResult::structured(value).into(),
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]).into(),
    }
}

/// What a cancelled call is answered with; nobody reads it.
pub(super) fn cancelled() -> Refusal {
    Refusal("cancelled".to_owned())
}
