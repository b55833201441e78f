//! Asks the person through the MCP client, by an elicitation.
//!
//! 1. Up to protocol version 2025-11-25 the server sends the question as a request while the call waits. From 2026-07-28 on
//!    the question is the response to the call, and the client repeats the call with the answer ([`super::pending`]).
//! 2. While the person is being asked, only the clocks of this call are paused.
//! 3. Only `accept` with the choice `yes` allows a command. Everything else denies it: some hosts accept or decline by themselves, so an accept
//!    without a choice is no yes, and a decline that comes at once is reported as that of the host. [`WhenUnable`] applies to clients that cannot ask,
//!    not to questions that failed.
//! 4. A question about a program that a running command is about to execute is asked by the calls that wait for the command
//!    ([`super::exec_questions`]).
//! 5. A question ends after `--max-pause`, so that a person who never answers does not stop a clock forever (G2).
use super::{http_caller::HttpCaller, scope::Context};
use crate::{
    client::stopwatch::Stopwatch,
    exec::policy::{Action, Asker, Prompt, Question},
};
use async_trait::async_trait;
use rmcp::{
    Peer, RoleServer, ServiceError,
    model::{
        ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
        EnumSchema, ErrorCode, PrimitiveSchemaDefinition, ProtocolVersion, ServerRequest,
    },
    service::{PeerRequestOptions, RequestHandle},
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// The one field of the form.
const CHOICE: &str = "run";
/// A decline that comes sooner is not that of a person, who has to read the question.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The action for a command that a person has to approve, if the client cannot ask a person.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub(crate) enum WhenUnable {
    /// Do not run it.
    Deny,
    /// Run it inside the sandbox.
    Run,
    /// Treat it as allowed: its programs run outside the sandbox if those of an `allow` would.
    Escalate,
}

/// The answer in a call.
pub(super) struct Answer {
    /// `None`: it could not be parsed.
    pub(super) result: Option<ElicitResult>,
    /// The time since the question.
    pub(super) after: Duration,
}

/// How a call can ask the person.
pub(super) enum AskMethod {
    /// By a request to the client. `max_pause`: the maximum time until the answer.
    Request { peer: Peer<RoleServer>, max_pause: Option<Duration> },
    /// By the response to the call.
    Response,
    /// An earlier call asked, and this one has the answer.
    Answered(Answer),
    /// Nobody can be asked, for this reason.
    Unable(&'static str),
}

impl AskMethod {
    pub(super) fn of(context: &Context, answered: Option<Answer>, max_pause: Option<Duration>) -> Self {
        if let Some(why) = HttpCaller::of(context).and_then(|caller| caller.unable) {
            return Self::Unable(why);
        }
        let elicitation = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
        // A client that names neither form nor url supports forms: older versions had nothing else.
        let supported = elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none());
        let by_response = context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        match (supported, by_response, answered) {
            (_, true, Some(answer)) => Self::Answered(answer),
            (false, ..) => Self::Unable("this client has no elicitation capability"),
            (true, true, None) => Self::Response,
            (true, false, _) => Self::Request { peer: context.peer.clone(), max_pause },
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
    pub(super) fn of(prompt: &Prompt, Answer { result, after }: &Answer) -> Self {
        let decided = |action| Self { action, is_decided: true };
        let undecided = |why: &str| Self { action: prompt.deny(why), is_decided: false };
        let Some(ElicitResult { action, content, .. }) = result else {
            return undecided("the answer could not be understood");
        };
        match action {
            ElicitationAction::Accept => match content.as_ref().and_then(|content| content[CHOICE].as_str()) {
                Some("yes") => decided(prompt.accept()),
                Some("no") => decided(prompt.deny("the person declined: the answer is no")),
                _ => undecided("this host accepted without the choice of a person"),
            },
            ElicitationAction::Decline if *after < AT_ONCE => {
                decided(prompt.deny("this host did not ask: the question was declined within 1 s"))
            }
            ElicitationAction::Decline => decided(prompt.deny("the person declined")),
            ElicitationAction::Cancel => undecided("the person gave no answer (cancelled)"),
            _ => undecided("the answer could not be understood"),
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
                WhenUnable::Escalate => Action::Allow,
            };
            Asked { action, is_decided: true }
        };
        Some(match self {
            Self::Unable(why) => unable(why),
            Self::Answered(answer) => Asked::of(prompt, answer),
            Self::Response => return None,
            Self::Request { peer, max_pause } => {
                let _pauses: Vec<_> = stopwatches.iter().map(Stopwatch::pause).collect();
                let asked = Instant::now();
                let answer = |result| Asked::of(prompt, &Answer { result, after: asked.elapsed() });
                let Some(answered) = within(*max_pause, request(peer, prompt.message.clone())).await else {
                    return Some(Asked { action: prompt.deny(NO_ANSWER_IN_TIME), is_decided: false });
                };
                match answered {
                    Ok(result) => answer(Some(result)),
                    Err(ServiceError::UnexpectedResponse) => answer(None),
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

/// Why a question that nobody has answered is a no.
pub(super) const NO_ANSWER_IN_TIME: &str = "nobody answered the question within --max-pause";

/// The output of the future; `None`: it takes longer than this.
pub(super) async fn within<F: Future>(max_pause: Option<Duration>, future: F) -> Option<F::Output> {
    match max_pause {
        Some(max_pause) => tokio::time::timeout(max_pause, future).await.ok(),
        None => Some(future.await),
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
        self.unasked().take()
    }

    fn unasked(&self) -> MutexGuard<'_, Option<String>> {
        // Each change is one assignment.
        self.unasked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Asker for CallAsker {
    async fn ask(&self, question: &Question<'_>) -> Action {
        let prompt = Prompt::about_command(question);
        match self.method.ask(&prompt, self.when_unable, &self.stopwatches).await {
            Some(Asked { action, .. }) => action,
            None => {
                let denied = prompt.deny("the person has not been asked yet");
                *self.unasked() = Some(prompt.message);
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

/// The question as a form with one choice, which is required and has no default: some hosts accept a form without fields by themselves, and others
/// cannot send one.
pub(super) fn elicitation(message: String) -> ElicitRequest {
    let choice = EnumSchema::builder(["no", "yes"].map(str::to_owned).into()).untitled().title("Run it?").build();
    let schema = ElicitationSchema::builder().required_property(CHOICE, PrimitiveSchemaDefinition::Enum(choice));
    let requested_schema = schema.build().expect("the required property is there");
    ElicitRequest::new(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::policy::Rules;
    use serde_json::{Value, json};
    use std::path::Path;

    /// Whether the answer is a yes, whether it is a decision, and the reason of a no.
    fn asked(answer: &Value, after: Duration) -> (bool, bool, String) {
        let rules = Rules::parse("my.rules", "prefix_rule(['rm'], decision='prompt')").unwrap();
        let judgement = rules.judge("rm x");
        let argv = ["bash", "-c", "rm x"].map(str::to_owned);
        let question =
            Question { program: "bash", argv: &argv, workdir: Path::new("/"), exec: None, judgement: &judgement };
        let answer = Answer { result: serde_json::from_value(answer.clone()).ok(), after };
        let Asked { action, is_decided } = Asked::of(&Prompt::about_command(&question), &answer);
        match action {
            Action::Deny { reason } => (false, is_decided, reason),
            _ => (true, is_decided, String::new()),
        }
    }

    #[test]
    fn only_an_accept_with_yes_is_a_yes() {
        let late = Duration::from_secs(60);
        let accept = |content: Value| json!({"action": "accept", "content": content});
        assert_eq!(asked(&accept(json!({"run": "yes"})), late), (true, true, String::new()));
        for (answer, is_decided, why) in [
            (accept(json!({"run": "no"})), true, "the person declined"),
            (accept(json!({})), false, "this host accepted without the choice of a person"),
            (json!({"action": "accept"}), false, "this host accepted without the choice of a person"),
            (accept(json!({"run": "YES"})), false, "this host accepted without the choice of a person"),
            (accept(json!({"run": true})), false, "this host accepted without the choice of a person"),
            (accept(json!({"other": "yes"})), false, "this host accepted without the choice of a person"),
            (accept(json!("yes")), false, "this host accepted without the choice of a person"),
            (json!({"action": "decline", "content": {"run": "yes"}}), true, "the person declined"),
            (json!({"action": "cancel", "content": {"run": "yes"}}), false, "the person gave no answer"),
            (json!({"content": {"run": "yes"}}), false, "the answer could not be understood"),
        ] {
            let (is_yes, decided, reason) = asked(&answer, late);
            assert!(!is_yes && decided == is_decided && reason.starts_with(why), "{answer}: {reason}");
        }
    }

    #[test]
    fn a_decline_that_comes_at_once_is_that_of_the_host() {
        let declined = |milliseconds| asked(&json!({"action": "decline"}), Duration::from_millis(milliseconds));
        for (milliseconds, why) in [(999, "this host did not ask"), (1_000, "the person declined")] {
            let (is_yes, is_decided, reason) = declined(milliseconds);
            assert!(!is_yes && is_decided && reason.starts_with(why), "{reason}");
        }
    }

    #[test]
    fn the_form_has_one_required_choice_without_a_default() {
        let form = serde_json::to_value(elicitation("Run it?".to_owned())).unwrap();
        let choice = json!({"type": "string", "title": "Run it?", "enum": ["no", "yes"]});
        let schema = json!({"type": "object", "properties": {"run": choice}, "required": ["run"]});
        assert_eq!(form["params"]["requestedSchema"], schema);
    }
}
