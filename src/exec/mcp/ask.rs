//! Asks the person through the MCP client, by an elicitation.
//!
//! 1. Up to protocol version 2025-11-25 the server sends the question as a request while the call waits. From 2026-07-28 on
//!    the question is the response to the call, and the client repeats the call with the answer ([`super::pending`]).
//! 2. While the person is being asked, only the clocks of this call are paused.
//! 3. Only `accept` allows a command. A decline, a cancel, an error and an invalid answer deny it. [`WhenUnable`] applies to
//!    clients that cannot ask, not to questions that failed.
//! 4. A question about a program that a running command is about to execute is asked by the calls that wait for the command
//!    ([`super::exec_questions`]).
use super::scope::Context;
use crate::{
    client::stopwatch::Stopwatch,
    exec::policy::{Action, Asker, Prompt, Question},
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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// The result of a question.
pub(super) struct Asked {
    pub(super) action: Action,
    /// Whether the action is a decision. A failed question is not one: the person is asked again about the next
    /// program like this one.
    pub(super) is_decided: bool,
}

impl Asked {
    /// `answer`: `None`: it could not be parsed.
    pub(super) fn of(prompt: &Prompt, answer: Option<&ElicitationAction>) -> Self {
        let undecided = |why: &str| Self { action: prompt.deny(why), is_decided: false };
        match answer {
            Some(ElicitationAction::Accept) => Self { action: prompt.accept(), is_decided: true },
            Some(ElicitationAction::Decline) => Self { action: prompt.deny("the person declined"), is_decided: true },
            Some(ElicitationAction::Cancel) => undecided("the person gave no answer (cancelled)"),
            None | Some(_) => undecided("the answer could not be understood"),
        }
    }
}

impl AskMethod {
    /// Asks the person, and pauses `stopwatches` meanwhile. `None`: the response to the call has to ask.
    pub(super) async fn ask(
        &self,
        prompt: &Prompt,
        when_unable: WhenUnable,
        stopwatches: &[Stopwatch],
    ) -> Option<Asked> {
        let unable = |why: &str| {
            let action = match when_unable {
                WhenUnable::Deny => prompt.deny(&format!("no person could be asked: {why}")),
                WhenUnable::Run => Action::Run,
                WhenUnable::Escalate => Action::Escalate,
            };
            Asked { action, is_decided: true }
        };
        Some(match self {
            Self::Unsupported => unable("this client has no elicitation capability"),
            Self::Answered(answer) => Asked::of(prompt, answer.as_ref().map(|answer| &answer.action)),
            Self::Response => return None,
            Self::Request(peer) => {
                let _pauses: Vec<_> = stopwatches.iter().map(Stopwatch::pause).collect();
                match request(peer, prompt.message.clone()).await {
                    Ok(answer) => Asked::of(prompt, Some(&answer.action)),
                    Err(ServiceError::UnexpectedResponse) => Asked::of(prompt, None),
                    Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                        unable(&format!("this client announced the elicitation capability but failed: {error}"))
                    }
                    Err(error) => {
                        let action = prompt.deny(&format!("the question was not answered: {error}"));
                        Asked { action, is_decided: false }
                    }
                }
            }
        })
    }
}

/// Asks the person about the command of one call.
pub(super) struct CallAsker {
    method: AskMethod,
    when_unable: WhenUnable,
    /// Paused while the person is being asked.
    stopwatches: Vec<Stopwatch>,
    state: Mutex<CallAskerState>,
}

#[derive(Default)]
struct CallAskerState {
    /// The question to send as the response to the call.
    unasked: Option<String>,
    /// Whether a rule asked, and the answer was not a no.
    is_approved: bool,
}

impl CallAsker {
    pub(super) fn new(method: AskMethod, when_unable: WhenUnable, stopwatches: Vec<Stopwatch>) -> Arc<Self> {
        Arc::new(Self { method, when_unable, stopwatches, state: Mutex::default() })
    }

    /// Takes the question to send as the response to the call, if there is one.
    pub(super) fn take_unasked(&self) -> Option<String> {
        self.state().unasked.take()
    }

    /// Whether a rule asked about the command, and the person, or `--when-unable`, let it run.
    pub(super) fn is_approved(&self) -> bool {
        self.state().is_approved
    }

    fn state(&self) -> MutexGuard<'_, CallAskerState> {
        // Each change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Asker for CallAsker {
    async fn ask(&self, question: &Question<'_>) -> Action {
        let prompt = Prompt::about_command(question);
        match self.method.ask(&prompt, self.when_unable, &self.stopwatches).await {
            Some(Asked { action, .. }) => {
                let is_yes = !matches!(action, Action::Deny { .. });
                self.state().is_approved = is_yes && question.judgement.rule.is_some();
                action
            }
            None => {
                let denied = prompt.deny("the person has not been asked yet");
                self.state().unasked = Some(prompt.message);
                denied
            }
        }
    }
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
