//! Asking the person, through the caller: an MCP elicitation.
//!
//! 1. Up to 2025-11-25 the server asks in a request of its own while the call waits. From 2026-07-28 on, the call is answered
//!    with the question, and comes again with the answer ([`super::pending`]).
//! 2. While the person is asked, the clocks of this call alone stand still, whatever becomes of the question.
//! 3. Only a yes is a yes. Who declines, cancels, answers with an error or with nothing that can be understood has not
//!    agreed. [`WhenUnable`] is for a caller that cannot ask, not for a question that failed.
use super::scope::Context;
use crate::{
    client::stopwatch::Stopwatch,
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

/// What to do with a command that a person has to approve when the caller cannot ask one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WhenUnable {
    /// Do not run it.
    #[default]
    Deny,
    /// Run it inside the sandbox.
    Run,
    /// Run it outside the sandbox.
    Escalate,
}

/// How this call can ask.
pub(super) enum Way {
    /// By a request.
    Request(Peer<RoleServer>),
    /// By the answer to the call.
    Answer,
    /// That was done, and this came of it.
    Answered(Option<ElicitResult>),
    /// Not at all.
    None,
}

impl Way {
    pub(super) fn of(context: &Context, answered: Option<Option<ElicitResult>>) -> Self {
        let elicitation = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
        // Neither form nor url said means form, as it was before there was another.
        let can = elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none());
        let by_answer = context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        match (can, by_answer, answered) {
            (_, true, Some(answer)) => Self::Answered(answer),
            (false, ..) => Self::None,
            (true, true, None) => Self::Answer,
            (true, false, _) => Self::Request(context.peer.clone()),
        }
    }
}

/// Asks on behalf of one call.
pub(super) struct CallAsker {
    way: Way,
    when_unable: WhenUnable,
    /// Of this call.
    stopwatches: Vec<Stopwatch>,
    /// What the call has to be answered with.
    left_open: Mutex<Option<String>>,
}

impl CallAsker {
    pub(super) fn new(way: Way, when_unable: WhenUnable, stopwatches: Vec<Stopwatch>) -> Arc<Self> {
        Arc::new(Self { way, when_unable, stopwatches, left_open: Mutex::default() })
    }

    /// The question that the call has to be answered with, if there is one.
    pub(super) fn left_open(&self) -> Option<String> {
        self.left_open.lock().unwrap_or_else(PoisonError::into_inner).take()
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
        match &self.way {
            Way::None => self.unable(question, "this caller has no capability for elicitation"),
            Way::Answered(answer) => judged(question, answer.as_ref().map(|answer| &answer.action)),
            Way::Answer => {
                *self.left_open.lock().unwrap_or_else(PoisonError::into_inner) = Some(message(question));
                deny(question, "the person has not been asked yet")
            }
            Way::Request(peer) => {
                let _stand_still: Vec<_> = self.stopwatches.iter().map(Stopwatch::pause).collect();
                match request(peer, message(question)).await {
                    Ok(answer) => judged(question, Some(&answer.action)),
                    Err(ServiceError::UnexpectedResponse) => judged(question, None),
                    Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                        self.unable(question, &format!("this caller says that it can, and then: {error}"))
                    }
                    Err(error) => deny(question, &format!("the question was not answered: {error}")),
                }
            }
        }
    }
}

fn judged(question: &Question<'_>, answer: Option<&ElicitationAction>) -> Action {
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
    let mut asked = Asked(Some(handle));
    let answer = match &mut asked.0 {
        Some(handle) => (&mut handle.rx).await.map_err(|_| ServiceError::TransportClosed)?,
        None => return Err(ServiceError::TransportClosed),
    };
    asked.0 = None;
    match answer? {
        ClientResult::ElicitResult(result) => Ok(result),
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

/// A question that is put. Abandoned, it is taken back, so that the person does not answer for nothing.
struct Asked(Option<RequestHandle<RoleServer>>);

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            tokio::spawn(handle.cancel(Some("the command is not wanted any more".to_owned())));
        }
    }
}

/// The question on the wire: nothing is to be filled in, the answer is a yes or a no.
pub(super) fn elicitation(message: String) -> ElicitRequest {
    let requested_schema = ElicitationSchema::new(Default::default());
    ElicitRequest::new(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// What the person reads: the exact command, where, and why it is asked.
fn message(question: &Question<'_>) -> String {
    let line = match question.argv {
        [_, option, line] if option.starts_with('-') => line.as_str(),
        argv => &argv.join(" "),
    };
    let mut text = "Run this command?\n\n".to_owned();
    for line in shown(line).lines() {
        let _ = writeln!(text, "    {line}");
    }
    let _ = write!(text, "\nin {}\n\n", shown(&question.workdir.display().to_string()));
    let _ = write!(text, "{}", shown(&question.judgement.to_string()));
    text
}

/// What moves the cursor, turns the direction of the text or cannot be seen must not make another command of it.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push(c),
            '\u{AD}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{3164}' | '\u{FEFF}' => {
                shown.extend(c.escape_unicode())
            }
            '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{E0000}'..='\u{E0FFF}' => {
                shown.extend(c.escape_unicode());
            }
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::policy::Rules;
    use std::path::Path;

    #[test]
    fn a_person_reads_the_exact_command_and_why() {
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
