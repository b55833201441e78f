//! Asks the person through the MCP client, by an elicitation.
//!
//! 1. Up to protocol version 2025-11-25 the server sends the question as a request while the call waits. From 2026-07-28 on
//!    the question is the response to the call, and the client repeats the call with the answer ([`super::pending`]).
//! 2. While the person is being asked, only the clocks of this call are paused.
//! 3. Only `accept` allows a command. A decline, a cancel, an error and an invalid answer deny it. [`WhenUnable`] applies to
//!    clients that cannot ask, not to questions that failed.
use super::scope::Context;
use crate::{
    client::stopwatch::Stopwatch,
    escape::escaped_lines,
    exec::policy::{Action, Asker, Question},
};
use async_trait::async_trait;
use rmcp::{
    Peer, RoleServer, ServiceError,
    model::{
        ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
        ErrorCode, ProtocolVersion, ServerRequest,
    },
    service::{PeerRequestOptions, RequestHandle},
};
use std::{
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
};

/// The action for a command that a person has to approve, if the client cannot ask a person.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub(crate) enum WhenUnable {
    /// Do not run it.
    Deny,
    /// Run it inside the sandbox.
    Run,
    /// Run it outside the sandbox.
    Escalate,
}

/// How a call can ask the person.
pub(super) enum AskMethod {
    /// By a request to the client.
    Request(Peer<RoleServer>),
    /// By the response to the call.
    Response,
    /// An earlier call asked, and this one has the answer; `None`: it could not be parsed.
    Answered(Option<ElicitResult>),
    /// The client cannot ask.
    Unsupported,
}

impl AskMethod {
    pub(super) fn of(context: &Context, answered: Option<Option<ElicitResult>>) -> Self {
        let elicitation = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
        // A client that names neither form nor url supports forms: older versions had nothing else.
        let supported = elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none());
        let by_response = context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        match (supported, by_response, answered) {
            (_, true, Some(answer)) => Self::Answered(answer),
            (false, ..) => Self::Unsupported,
            (true, true, None) => Self::Response,
            (true, false, _) => Self::Request(context.peer.clone()),
        }
    }
}

/// Asks the person about the command of one call.
pub(super) struct CallAsker {
    method: AskMethod,
    when_unable: WhenUnable,
    /// Paused while the person is being asked.
    stopwatches: Vec<Stopwatch>,
    /// The question to send as the response to the call.
    unasked: Mutex<Option<String>>,
}

impl CallAsker {
    pub(super) fn new(method: AskMethod, when_unable: WhenUnable, stopwatches: Vec<Stopwatch>) -> Arc<Self> {
        Arc::new(Self { method, when_unable, stopwatches, unasked: Mutex::default() })
    }

    /// Takes the question to send as the response to the call, if there is one.
    pub(super) fn take_unasked(&self) -> Option<String> {
        self.unasked.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn unable(&self, question: &Question<'_>, why: &str) -> Action {
        match self.when_unable {
            WhenUnable::Deny => deny(question, &format!("no person could be asked: {why}")),
            WhenUnable::Run => Action::Run,
            WhenUnable::Escalate => Action::Escalate,
        }
    }
}

#[async_trait]
impl Asker for CallAsker {
    async fn ask(&self, question: &Question<'_>) -> Action {
        match &self.method {
            AskMethod::Unsupported => self.unable(question, "this client has no elicitation capability"),
            AskMethod::Answered(answer) => action(question, answer.as_ref().map(|answer| &answer.action)),
            AskMethod::Response => {
                *self.unasked.lock().unwrap_or_else(PoisonError::into_inner) = Some(message(question));
                deny(question, "the person has not been asked yet")
            }
            AskMethod::Request(peer) => {
                let _pauses: Vec<_> = self.stopwatches.iter().map(Stopwatch::pause).collect();
                match request(peer, message(question)).await {
                    Ok(answer) => action(question, Some(&answer.action)),
                    Err(ServiceError::UnexpectedResponse) => action(question, None),
                    Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => self.unable(
                        question,
                        &format!("this client announced the elicitation capability but failed: {error}"),
                    ),
                    Err(error) => deny(question, &format!("the question was not answered: {error}")),
                }
            }
        }
    }
}

fn action(question: &Question<'_>, answer: Option<&ElicitationAction>) -> Action {
    match answer {
        Some(ElicitationAction::Accept) => question.accepted(),
        Some(ElicitationAction::Decline) => deny(question, "the person declined"),
        Some(ElicitationAction::Cancel) => deny(question, "the person gave no answer (cancelled)"),
        None | Some(_) => deny(question, "the answer could not be understood"),
    }
}

fn deny(question: &Question<'_>, why: &str) -> Action {
    Action::Deny { reason: format!("{why}; {}", question.judgement) }
}

async fn request(peer: &Peer<RoleServer>, message: String) -> Result<ElicitResult, ServiceError> {
    let request = ServerRequest::ElicitRequest(elicitation(message));
    let handle = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await?;
    let mut sent = SentQuestion(Some(handle));
    let answer = match &mut sent.0 {
        Some(handle) => (&mut handle.rx).await.map_err(|_| ServiceError::TransportClosed)?,
        None => return Err(ServiceError::TransportClosed),
    };
    sent.0 = None;
    match answer? {
        ClientResult::ElicitResult(result) => Ok(result),
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

/// A question that was sent. Dropping it before the answer cancels it, so that the person does not answer in vain.
struct SentQuestion(Option<RequestHandle<RoleServer>>);

impl Drop for SentQuestion {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            tokio::spawn(handle.cancel(Some("the call was cancelled".to_owned())));
        }
    }
}

/// The question as a form without fields: the answer is yes or no.
pub(super) fn elicitation(message: String) -> ElicitRequest {
    let requested_schema = ElicitationSchema::new(Default::default());
    ElicitRequest::new(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// The text for the person: the exact command, its directory, and why a rule prompts.
fn message(question: &Question<'_>) -> String {
    let line = match question.argv {
        [_, option, line] if option.starts_with('-') => line.as_str(),
        argv => &argv.join(" "),
    };
    let mut text = "Run this command?\n\n".to_owned();
    for line in escaped_lines(line).lines() {
        let _ = writeln!(text, "    {line}");
    }
    let _ = write!(text, "\nin {}\n\n", escaped_lines(&question.workdir.display().to_string()));
    let _ = write!(text, "{}", escaped_lines(&question.judgement.to_string()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::policy::Rules;
    use std::path::Path;

    #[test]
    fn the_question_has_the_exact_command_and_the_reason() {
        let rules = "prefix_rule(['git', 'push'], decision='prompt', justification='others see it')";
        let rules = Rules::parse("my.rules", rules).unwrap();
        let line = "git push # \u{202E}\x1b[2K\necho \u{200B}done";
        let judgement = rules.judge("git push");
        let argv = ["bash", "-c", line].map(str::to_owned);
        let workdir = Path::new("/work");
        let text = message(&Question { program: "bash", argv: &argv, workdir, judgement: &judgement });
        let start = "Run this command?\n\n    git push # \\u{202e}\\u{1b}[2K\n    echo \\u{200b}done\n\nin /work\n\n";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("my.rules") && text.ends_with("others see it"), "{text}");
    }
}
