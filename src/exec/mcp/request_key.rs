//! The key by which a call is found again when it is repeated with the answer to a question.
use super::{handler::named_thread, http_caller::HttpCaller, peer::Peer, refusal::Refusal, scope::Context};
use rmcp::model::JsonObject;
use std::{collections::BTreeMap, path::Path};

/// Identifies a request: an answer is valid only for the same request.
#[derive(Clone)]
pub(super) struct RequestKey {
    /// The thread that the call names.
    pub(super) thread: Option<String>,
    /// The tool, thread and arguments in a canonical form, and over HTTP the process that calls.
    pub(super) canonical: Vec<u8>,
}

impl RequestKey {
    pub(super) fn new(tool: &str, context: &Context, arguments: &JsonObject) -> Result<Self, Refusal> {
        // Sorts the arguments.
        let arguments: BTreeMap<_, _> = arguments.iter().collect();
        let thread = named_thread(context)?;
        let canonical = serde_json::to_vec(&(tool, &thread, arguments, caller(context)))?;
        Ok(Self { thread, canonical })
    }

    /// The key for a command that has not started: the path that the call names may lead to another directory later.
    pub(super) fn in_directory(&self, workdir: &Path) -> Self {
        // Text of JSON has no byte 0.
        let canonical = [&self.canonical, &[0][..], workdir.as_os_str().as_encoded_bytes()].concat();
        Self { thread: self.thread.clone(), canonical }
    }
}

/// The process that calls over HTTP: only it may answer its question.
fn caller(context: &Context) -> Option<(i32, u64)> {
    match HttpCaller::of(context)?.peer {
        Peer::Process { id, start } => Some((id, start)),
        Peer::Elsewhere => None,
    }
}
