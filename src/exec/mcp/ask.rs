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
    escape::escaped_lines,
    exec::policy::{Action, Asker, Exec, Lineage, Question},
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
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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

/// A question as the person reads it, and what the answers lead to.
#[derive(Debug, Clone)]
pub(super) struct Prompt {
    pub(super) message: String,
    /// After a plain yes.
    accepted: Action,
    judgement: String,
}

impl Prompt {
    /// About a command that a call wants to run.
    fn about_command(question: &Question<'_>) -> Self {
        let line = match question.argv {
            [_, option, line] if option.starts_with('-') => line.as_str(),
            argv => &argv.join(" "),
        };
        Self::new(question, "Run this command?", line, "")
    }

    /// About a program that a running command is about to execute. `line`: the command's line.
    pub(super) fn about_program(question: &Question<'_>, exec: &Exec, line: &str) -> Self {
        let program = [exec.program.as_str()].into_iter().chain(exec.argv.iter().skip(1).map(String::as_str));
        let quoted = |word| shlex::try_quote(word).map_or_else(|_| format!("{word:?}"), Into::into);
        let mut text = program.map(quoted).collect::<Vec<_>>().join(" ");
        if !exec.is_complete {
            text += " …";
        }
        let by = match exec.lineage {
            Lineage::Line => "The shell executes it in this command:",
            Lineage::Nested(_) => "A program executes it in this command:",
            Lineage::Unknown => "A background program executes it in this command:",
        };
        let after = format!("\n\n{by}\n\n{}", indented(line));
        Self::new(question, "Run this program?", &text, after.trim_end())
    }

    fn new(question: &Question<'_>, ask: &str, what: &str, after: &str) -> Self {
        let judgement = question.judgement.to_string();
        let workdir = escaped_lines(&question.workdir.display().to_string());
        let message = format!("{ask}\n\n{}\nin {workdir}\n\n{}{after}", indented(what), escaped_lines(&judgement));
        Self { message, accepted: question.accepted(), judgement }
    }

    pub(super) fn action(&self, answer: Option<&ElicitationAction>) -> Action {
        match answer {
            Some(ElicitationAction::Accept) => self.accepted.clone(),
            Some(ElicitationAction::Decline) => self.deny("the person declined"),
            Some(ElicitationAction::Cancel) => self.deny("the person gave no answer (cancelled)"),
            None | Some(_) => self.deny("the answer could not be understood"),
        }
    }

    pub(super) fn deny(&self, why: &str) -> Action {
        Action::Deny { reason: format!("{why}; {}", self.judgement) }
    }
}

/// The text with nothing that a terminal or a client could show as something else, each line indented.
fn indented(text: &str) -> String {
    let mut indented = String::new();
    for line in escaped_lines(text).lines() {
        let _ = writeln!(indented, "    {line}");
    }
    indented
}

impl AskMethod {
    /// Asks the person, and pauses `stopwatches` meanwhile. `None`: the response to the call has to ask.
    pub(super) async fn ask(
        &self,
        prompt: &Prompt,
        when_unable: WhenUnable,
        stopwatches: &[Stopwatch],
    ) -> Option<Action> {
        let unable = |why: &str| match when_unable {
            WhenUnable::Deny => prompt.deny(&format!("no person could be asked: {why}")),
            WhenUnable::Run => Action::Run,
            WhenUnable::Escalate => Action::Escalate,
        };
        Some(match self {
            Self::Unsupported => unable("this client has no elicitation capability"),
            Self::Answered(answer) => prompt.action(answer.as_ref().map(|answer| &answer.action)),
            Self::Response => return None,
            Self::Request(peer) => {
                let _pauses: Vec<_> = stopwatches.iter().map(Stopwatch::pause).collect();
                match request(peer, prompt.message.clone()).await {
                    Ok(answer) => prompt.action(Some(&answer.action)),
                    Err(ServiceError::UnexpectedResponse) => prompt.action(None),
                    Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                        unable(&format!("this client announced the elicitation capability but failed: {error}"))
                    }
                    Err(error) => prompt.deny(&format!("the question was not answered: {error}")),
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
            Some(action) => {
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
        let question = Question { program: "bash", argv: &argv, workdir, exec: None, judgement: &judgement };
        let text = Prompt::about_command(&question).message;
        let start = "Run this command?\n\n    git push # \\u{202e}\\u{1b}[2K\n    echo \\u{200b}done\n\nin /work\n\n";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("my.rules") && text.ends_with("others see it"), "{text}");
    }

    #[test]
    fn a_question_about_a_program_has_its_arguments_and_the_line_it_came_from() {
        let rules = Rules::parse("my.rules", "prefix_rule(['git', 'push'], decision='prompt')").unwrap();
        let argv = ["git", "push", "a b", "\x1b[2K"].map(str::to_owned);
        let exec: Exec = serde_json::from_value(serde_json::json!({
            "program": "/usr/bin/git", "file": "/usr/bin/git", "argv": argv, "is_complete": false, "workdir": "/work",
            "interpreter": [], "changed_env": [], "lineage": {"Nested": 2}, "place": "Sandbox",
        }))
        .unwrap();
        let (workdir, judgement) = (Path::new("/work"), rules.judge_exec(&exec));
        let question =
            Question { program: &exec.program, argv: &exec.argv, workdir, exec: Some(&exec), judgement: &judgement };
        let text = Prompt::about_program(&question, &exec, "make release").message;
        let start =
            "Run this program?\n\n    /usr/bin/git push 'a b' '\\u{1b}[2K' …\n\nin /work\n\n`/usr/bin/git push ";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("my.rules") && text.ends_with("in this command:\n\n    make release"), "{text}");
    }
}
