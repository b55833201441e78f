//! The key by which a call is found again when it is repeated with the answer to a question.
use super::{handler::named_thread, refusal::Refusal, scope::Context};
use rmcp::model::JsonObject;
use std::{collections::BTreeMap, path::Path};

/// Identifies a request: an answer is valid only for the same request.
#[derive(Clone)]
pub(super) struct RequestKey {
    /// The thread that the call names.
    pub(super) thread: Option<String>,
    /// The tool, thread, arguments and directory in a canonical form.
    pub(super) canonical: Vec<u8>,
}

impl RequestKey {
    /// `workdir`: the directory itself, because the path that the call names may lead elsewhere later.
    pub(super) fn new(
        tool: &str,
        context: &Context,
        arguments: &JsonObject,
        workdir: Option<&Path>,
    ) -> Result<Self, Refusal> {
        // Sorts the arguments.
        let arguments: BTreeMap<_, _> = arguments.iter().collect();
        let thread = named_thread(context)?;
        let workdir = workdir.map(|path| path.as_os_str().as_encoded_bytes());
        let canonical = serde_json::to_vec(&(tool, &thread, arguments, workdir))?;
        Ok(Self { thread, canonical })
    }
}
