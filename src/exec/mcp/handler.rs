//! MCP: one caller, from its calls to the tools and back.
//!
//! 1. What the caller did wrong is an answer that a model can read (`isError`); an error of the protocol is only what no
//!    tool can answer.
//! 2. A call that is cancelled ends what was started for it.
use super::{
    deletions::{Deletions, Expected},
    refusal::Refusal,
    scope::{Context, Scope},
    server::ExecServer,
    tools,
};
use rmcp::{
    ErrorData, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
        PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
    },
};
use serde::Serialize;
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use uuid::Uuid;

/// What a call may name its thread with, in `_meta`.
const THREAD_KEYS: [&str; 4] = ["pausewatch/threadId", "pausewatch/thread_id", "threadId", "thread_id"];

const INSTRUCTIONS: &str = "\
Commands run here under time limits that stand still while a person is being asked something, so ask for the time that the \
work itself needs. In each answer, wall_ms = active_ms + paused_ms: a large paused_ms means that a person took their time, \
timed_out that the command itself was too slow, denied that it was not run at all (do not try to get around that).";

/// One who calls: an MCP session, whose commands end with it; or, over HTTP from 2026-07-28 on, where there are none, one
/// request, whose sessions belong to the server.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(super) server: Arc<ExecServer>,
    own: Scope,
    /// There, if it calls over HTTP.
    deletions: Option<Arc<Deletions>>,
    /// That of its session.
    deletion: OnceLock<Option<Expected>>,
}

impl Caller {
    fn new(server: &Arc<ExecServer>, deletions: Option<Arc<Deletions>>) -> Self {
        let thread_id = server.config.thread_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        let own = Scope::new(Some(thread_id), &server.shutdown);
        Self { server: server.clone(), own, deletions, deletion: OnceLock::new() }
    }

    /// One that has the connection for itself.
    pub(super) fn connected(server: &Arc<ExecServer>) -> Self {
        Self::new(server, None)
    }

    /// One that calls over HTTP.
    pub(super) fn over_http(server: &Arc<ExecServer>, deletions: &Arc<Deletions>) -> Self {
        Self::new(server, Some(deletions.clone()))
    }

    pub(super) fn own(&self) -> &Scope {
        &self.own
    }

    /// Whose commands a call is about.
    pub(super) fn scope(&self, context: &Context) -> &Scope {
        if self.has_session(context) { &self.own } else { &self.server.shared }
    }

    fn has_session(&self, context: &Context) -> bool {
        let version = context.protocol_version();
        self.deletions.is_none() || version.is_none_or(|version| version < ProtocolVersion::V_2026_07_28)
    }

    /// Has its commands end when its session is deleted.
    fn end_when_deleted(&self, context: &Context) {
        if let Some(deletions) = self.deletions.as_ref().filter(|_| self.has_session(context)) {
            self.deletion.get_or_init(|| deletions.expect(context, &self.own.gone));
        }
    }

    /// The thread that a call belongs to.
    pub(super) fn thread_id(&self, context: &Context) -> Result<String, Refusal> {
        let own = || self.scope(context).thread_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        Ok(named_thread(context)?.unwrap_or_else(own))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.own.gone.cancel();
    }
}

/// The thread that a call names.
pub(super) fn named_thread(context: &Context) -> Result<Option<String>, Refusal> {
    match THREAD_KEYS.iter().find_map(|key| context.meta.get(*key)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(thread_id)) => Ok(Some(thread_id.clone())),
        Some(_) => Err(Refusal("the thread id in _meta is no string".to_owned())),
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
        self.end_when_deleted(&context);
        let answered = match &*request.name {
            "shell" => self.shell(request, &context).await,
            "exec_command" => self.exec_command(request, &context).await,
            "write_stdin" => self.write_stdin(request, &context).await.map(structured),
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
        Ok(answered.unwrap_or_else(|Refusal(why)| CallToolResult::error(vec![ContentBlock::text(why)]).into()))
    }
}

pub(super) fn structured(answer: impl Serialize) -> CallToolResponse {
    match serde_json::to_value(answer) {
        Ok(value) => CallToolResult::structured(value).into(),
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]).into(),
    }
}
