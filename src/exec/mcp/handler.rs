//! The MCP handler of one caller: dispatches its calls to the tools.
//!
//! 1. A mistake of the model is a tool result with `isError`, which the model can read. Protocol errors are only for calls
//!    of unknown tools.
//! 2. Cancelling a call ends the command that was started for it.
use super::{
    http_sessions::{HttpSessions, Registered, session_of},
    refusal::Refusal,
    scope::{Context, Scope},
    server::ExecServer,
    tools,
};
use http::request::Parts;
use rmcp::{
    ErrorData, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult, ErrorCode,
        Implementation, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig,
        Tool,
    },
};
use serde::Serialize;
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use uuid::Uuid;

/// The keys in `_meta` that may name the thread of a call.
const THREAD_KEYS: [&str; 4] = ["pausewatch/threadId", "pausewatch/thread_id", "threadId", "thread_id"];

const INSTRUCTIONS: &str = "\
Commands run here under time limits that are paused while a person is being asked something, so ask for the time that the \
work itself needs. In each answer, wall_ms = active_ms + paused_ms: a large paused_ms means that a person took their time, \
timed_out that the command itself was too slow, denied that it was not run at all (do not try to get around that).";

/// A caller: an MCP session, whose commands end with it; or one HTTP request of protocol version 2026-07-28 or later, which
/// has no session, so that the server owns its commands.
pub(crate) struct Caller {
    pub(super) server: Arc<ExecServer>,
    own: Scope,
    /// `None` on standard input and output.
    sessions: Option<Arc<HttpSessions>>,
    /// Set by the first call of a session.
    registered: OnceLock<Option<Registered>>,
}

impl Caller {
    fn new(server: &Arc<ExecServer>, sessions: Option<Arc<HttpSessions>>) -> Self {
        let thread_id = server.config.thread_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        let own = Scope::new(Some(thread_id), &server.shutdown);
        Self { server: server.clone(), own, sessions, registered: OnceLock::new() }
    }

    /// The only caller, on standard input and output.
    pub(super) fn over_stdio(server: &Arc<ExecServer>) -> Self {
        Self::new(server, None)
    }

    /// A caller over HTTP.
    pub(super) fn over_http(server: &Arc<ExecServer>, sessions: &Arc<HttpSessions>) -> Self {
        Self::new(server, Some(sessions.clone()))
    }

    pub(super) fn own(&self) -> &Scope {
        &self.own
    }

    /// The owner of the commands that a call starts and finds.
    pub(super) fn scope(&self, context: &Context) -> &Scope {
        if self.has_session(context) { &self.own } else { &self.server.sessionless }
    }

    fn has_session(&self, context: &Context) -> bool {
        let version = context.protocol_version();
        self.sessions.is_none() || version.is_none_or(|version| version < ProtocolVersion::V_2026_07_28)
    }

    /// Makes the end of the session end its commands.
    fn register_session(&self, context: &Context) {
        if let Some(sessions) = self.sessions.as_ref().filter(|_| self.has_session(context)) {
            let session = || session_of(&context.extensions.get::<Parts>()?.headers);
            self.registered.get_or_init(|| sessions.register(session()?, &self.own));
        }
    }

    /// The thread of a call: the one it names, or the default.
    pub(super) fn thread_id(&self, context: &Context) -> Result<String, Refusal> {
        let default = || self.scope(context).thread_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        Ok(named_thread(context)?.unwrap_or_else(default))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.own.closed.cancel();
    }
}

/// The thread that a call names in `_meta`.
pub(super) fn named_thread(context: &Context) -> Result<Option<String>, Refusal> {
    match THREAD_KEYS.iter().find_map(|key| context.meta.get(*key)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(thread_id)) => Ok(Some(thread_id.clone())),
        Some(_) => Err(Refusal("the thread id in _meta is not a string".to_owned())),
    }
}

/// The path of the directory to run a command in, without symbolic links. `named`: `None` means the server's own.
///
/// Only this call waits for a file system that does not answer.
pub(super) async fn workdir(named: Option<&str>) -> Result<PathBuf, Refusal> {
    let named = named.unwrap_or(".").to_owned();
    let found = move || match Path::new(&named).canonicalize() {
        Ok(directory) if directory.is_dir() => Ok(directory),
        Ok(_) => Err(Refusal(format!("workdir {named:?} is not a directory"))),
        Err(error) => Err(Refusal(format!("workdir {named:?}: {error}"))),
    };
    tokio::task::spawn_blocking(found).await?
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

    /// Answers requests for which rmcp has no type: methods that do not exist, and calls of tools with wrong parameters.
    async fn on_custom_request(&self, request: CustomRequest, _: Context) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        if method == "tools/call"
            && let Err(error) = serde_json::from_value::<CallToolRequestParams>(params.unwrap_or_default())
        {
            return Err(ErrorData::invalid_params(format!("params: {error}"), None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        self.register_session(&context);
        let result = match &*request.name {
            "shell" => self.shell(request, &context).await,
            "exec_command" => self.exec_command(request, &context).await,
            "write_stdin" => self.write_stdin(request, &context).await,
            "kill" => self.kill(request, &context).await.map(structured),
            "sessions" => self.sessions(request, &context).map(structured),
            unknown => {
                let names: Vec<_> = tools::list().into_iter().map(|tool| tool.name).collect();
                return Err(ErrorData::invalid_params(
                    format!("unknown tool {unknown:?}: there are {}", names.join(", ")),
                    None,
                ));
            }
        };
        Ok(result.unwrap_or_else(|Refusal(why)| CallToolResult::error(vec![ContentBlock::text(why)]).into()))
    }
}

pub(super) fn structured(result: impl Serialize) -> CallToolResponse {
    match serde_json::to_value(result) {
        Ok(value) => CallToolResult::structured(value).into(),
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]).into(),
    }
}
