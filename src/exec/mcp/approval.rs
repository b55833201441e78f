//! Decides whether a command may run, and where: by the rules, or by the person if a rule prompts.
use super::{
    ExecServer,
    ask::{AskMethod, CallAsker, elicitation},
    clock::Clock,
    command::CommandSpec,
    handler::{Caller, named_thread, structured},
    progress,
    refusal::Refusal,
    scope::Context,
    tools::Outcome,
};
use crate::{
    exec::policy::{Action, AskingPolicy, EscalationPolicy},
    exec::sandbox::Sandbox,
};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ElicitResult, InputRequest, InputRequiredResult, JsonObject,
};
use std::collections::BTreeMap;

/// The key of the one question in an `InputRequiredResult`.
const QUESTION: &str = "approval";

/// A call that wants to run a command.
pub(super) struct ExecRequest {
    pub(super) spec: CommandSpec,
    pub(super) login: bool,
    /// The clock of the command.
    pub(super) clock: Clock,
    /// The clock of `yield_time_ms`, if the call has one.
    pub(super) until: Option<Clock>,
    /// The answer to the question that was the response to an earlier call; `Some(None)`: it could not be parsed.
    answered: Option<Option<ElicitResult>>,
    /// The thread that the call names.
    thread: Option<String>,
    /// The tool, thread, arguments and directory in a canonical form: an answer is valid for the same request only.
    canonical: Vec<u8>,
}

/// The decision about a request.
pub(super) enum Approval {
    /// The command may run.
    Granted { request: Box<ExecRequest>, sandbox: Option<Sandbox> },
    /// The command may not run, or not yet: the response to the call.
    Withheld(Box<CallToolResponse>),
}

impl ExecRequest {
    /// `start` starts the command's clock. It is not called if an earlier call has started the clock.
    pub(super) fn new(
        server: &ExecServer,
        request: &mut CallToolRequestParams,
        context: &Context,
        arguments: &JsonObject,
        spec: CommandSpec,
        start: impl FnOnce() -> Result<Clock, crate::client::Error>,
    ) -> Result<Self, Refusal> {
        // Sorts the arguments.
        let arguments: BTreeMap<_, _> = arguments.iter().collect();
        let thread = named_thread(context)?;
        // The directory itself, because the path that the call names may lead elsewhere later.
        let workdir = spec.workdir.as_os_str().as_encoded_bytes();
        let canonical = serde_json::to_vec(&(&request.name, &thread, arguments, workdir))?;
        let (clock, answered) = match request.request_state.take() {
            None => (start()?, None),
            Some(state) => {
                let clock = server.pending.take(&state, &canonical).map_err(|why| Refusal(why.to_owned()))?;
                let answers = request.input_responses.take().unwrap_or_default();
                let answered = answers.get(QUESTION).map(|answer| serde_json::from_value(answer.clone()).ok());
                (clock, answered)
            }
        };
        Ok(Self { spec, login: false, clock, until: None, answered, thread, canonical })
    }
}

impl Caller {
    /// Applies the rules and asks the person if a rule prompts. May take as long as the person takes.
    pub(super) async fn approve(&self, mut request: ExecRequest, context: &Context) -> Result<Approval, Refusal> {
        let config = &self.server.config;
        let shell = config.launcher.shell.to_string_lossy();
        let stopwatches = [Some(&request.clock), request.until.as_ref()].into_iter().flatten();
        let stopwatches = stopwatches.map(|clock| clock.stopwatch().clone()).collect();
        let method = AskMethod::of(context, request.answered.take());
        let asker = CallAsker::new(method, config.policy.when_unable, stopwatches);
        let sandbox = config.policy.sandbox.as_ref();
        let objection = sandbox.and_then(|sandbox| sandbox.objection(&request.spec.workdir));
        let policy = AskingPolicy::new(config.policy.rules.clone(), asker.clone()).for_lines_of(&shell);
        let policy = policy.with_objection(objection);
        let argv = [&*shell, if request.login { "-lc" } else { "-c" }, &request.spec.line].map(str::to_owned);
        let decided = policy.determine_action(&shell, &argv, &request.spec.workdir);
        let clock = request.until.as_ref().unwrap_or(&request.clock);
        let action = progress::notify_during(context, clock, decided).await;
        let sandbox = match action {
            Action::Escalate => None,
            Action::Run => sandbox.map(|sandbox| sandbox.sandbox_for(&request.spec)),
            Action::Deny { reason } => return Ok(self.withhold(request, reason, asker.take_unasked())),
        };
        Ok(Approval::Granted { request: Box::new(request), sandbox })
    }

    /// `unasked`: the question that the client is to ask.
    fn withhold(&self, request: ExecRequest, reason: String, unasked: Option<String>) -> Approval {
        let ExecRequest { clock, thread, canonical, .. } = request;
        let response = match unasked {
            None => structured(Outcome::denied(reason, clock.read())),
            Some(message) => {
                let state = self.server.pending.put(clock, thread, &canonical);
                let questions = [(QUESTION.to_owned(), InputRequest::Elicitation(elicitation(message)))];
                InputRequiredResult::new(Some(questions.into()), Some(state)).into()
            }
        };
        Approval::Withheld(Box::new(response))
    }
}
