//! Decides whether a command may run, and where: by the rules, or by the person if a rule prompts.
use super::{
    ExecServer,
    ask::{Answer, AskMethod, CallAsker, elicitation},
    clock::Clock,
    command::CommandSpec,
    exec_questions::TakenQuestion,
    handler::{Caller, structured},
    pending::Waiting,
    progress,
    refusal::Refusal,
    request_key::RequestKey,
    running_call::RunningCall,
    scope::Context,
    tools::Outcome,
};
use crate::{
    exec::policy::{Action, AskingPolicy, EscalationPolicy},
    exec::sandbox::Sandbox,
};
use rmcp::model::{CallToolRequestParams, CallToolResponse, InputRequest, InputRequiredResult};
use std::time::Duration;

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
    /// The answer to the question that was the response to an earlier call.
    answered: Option<Answer>,
    key: RequestKey,
}

impl ExecServer {
    /// The running command whose question a call answers; `None`: it answers no such question.
    pub(super) fn answered_exec(&self, request: &mut CallToolRequestParams, key: &RequestKey) -> Option<RunningCall> {
        let (waiting, after) = self.pending.take(request.request_state.as_ref()?, &key.canonical).ok()?;
        let Waiting::Exec(waiting) = waiting else { return None };
        Some(waiting.answered(answer(request, after)))
    }

    /// The clock of the command that has not started, whose question a call answers, and the answer; `None`: it is a new call.
    pub(super) fn answered_start(
        &self,
        request: &mut CallToolRequestParams,
        key: &RequestKey,
    ) -> Result<Option<(Clock, Option<Answer>)>, Refusal> {
        let Some(state) = request.request_state.take() else { return Ok(None) };
        let (waiting, after) = self.pending.take(&state, &key.canonical).map_err(|why| Refusal(why.to_owned()))?;
        match waiting {
            Waiting::Start { clock, .. } => Ok(Some((clock, answer(request, after)))),
            Waiting::Exec(_) => Err(Refusal("requestState belongs to another request".to_owned())),
        }
    }

    /// The response that asks the client a question; `waiting` waits for the answer.
    fn question(&self, message: String, waiting: Waiting, key: RequestKey) -> CallToolResponse {
        let state = self.pending.put(waiting, key.thread, &key.canonical);
        let questions = [(QUESTION.to_owned(), InputRequest::Elicitation(elicitation(message)))];
        InputRequiredResult::new(Some(questions.into()), Some(state)).into()
    }
}

/// `None`: there is no answer, so the question is asked again. `after`: the time since it was asked.
fn answer(request: &mut CallToolRequestParams, after: Duration) -> Option<Answer> {
    let answers = request.input_responses.take().unwrap_or_default();
    answers.get(QUESTION).map(|answer| Answer { result: serde_json::from_value(answer.clone()).ok(), after })
}

impl ExecRequest {
    /// `answered`: the answer to an earlier question.
    pub(super) fn new(spec: CommandSpec, clock: Clock, answered: Option<Answer>, key: RequestKey) -> Self {
        Self { spec, login: false, clock, until: None, answered, key }
    }
}

/// The decision about a request.
pub(super) enum Approval {
    /// The command may run.
    Granted {
        request: Box<ExecRequest>,
        sandbox: Option<Sandbox>,
        /// Whether a person has said yes to what the rules ask about in the line.
        is_approved: bool,
    },
    /// The command may not run, or not yet: the response to the call.
    Withheld(Box<CallToolResponse>),
}

/// What a person should know before a yes to a line that a rule asks about.
fn consequence(judges_programs: bool, has_terminal: bool) -> &'static str {
    match (judges_programs, has_terminal) {
        (true, false) => {
            "After a yes, the programs that the rules ask about run outside the sandbox, and the rest of the command runs inside."
        }
        (true, true) => {
            "After a yes, the programs that the rules ask about run outside the sandbox, in a terminal into which the agent can type; the rest of \
             the command runs inside."
        }
        (false, _) => "After a yes, the whole command runs outside the sandbox, with everything that it starts.",
    }
}

impl Caller {
    /// Applies the rules and asks the person if a rule prompts. May take as long as the person takes.
    pub(super) async fn approve(&self, mut request: ExecRequest, context: &Context) -> Result<Approval, Refusal> {
        let config = &self.server.config;
        let shell = config.launcher.shell.to_string_lossy();
        let stopwatches = [Some(&request.clock), request.until.as_ref()].into_iter().flatten();
        let stopwatches = stopwatches.map(|clock| clock.stopwatch().clone()).collect();
        let method = AskMethod::of(context, request.answered.take(), config.limits.max_pause);
        let asker = CallAsker::new(method, config.policy.when_unable, stopwatches);
        let sandbox = config.policy.sandbox.as_ref();
        let objection = sandbox.and_then(|sandbox| sandbox.objection(&request.spec.workdir));
        let policy = AskingPolicy::new(config.policy.rules.clone(), asker.clone()).for_lines_of(&shell);
        let judges_programs = sandbox.is_some() && config.policy.nested.restricted().is_some();
        let consequence = sandbox.map(|_| consequence(judges_programs, request.spec.tty).to_owned());
        let policy =
            policy.with_objection(objection).with_consequence(consequence).with_judged_programs(judges_programs);
        let argv = [&*shell, if request.login { "-lc" } else { "-c" }, &request.spec.line].map(str::to_owned);
        let decided = policy.determine_action(&shell, &argv, &request.spec.workdir);
        let clock = request.until.as_ref().unwrap_or(&request.clock);
        let (is_approved, is_inside) = match progress::notify_during(context, clock, decided).await {
            // Programs leave the sandbox one by one if they are judged.
            Action::Escalate => (true, judges_programs),
            Action::Allow | Action::Run => (false, true),
            Action::Deny { reason } => return Ok(self.withhold(request, reason, asker.take_unasked())),
        };
        let sandbox = sandbox.filter(|_| is_inside).map(|sandbox| sandbox.sandbox_for(&request.spec.workdir));
        Ok(Approval::Granted { request: Box::new(request), sandbox, is_approved })
    }

    /// `unasked`: the question that the client is to ask.
    fn withhold(&self, request: ExecRequest, reason: String, unasked: Option<String>) -> Approval {
        let ExecRequest { clock, key, .. } = request;
        let response = match unasked {
            None => structured(Outcome::denied(reason, clock.read())),
            Some(message) => self.server.question(message, Waiting::start(clock), key),
        };
        Approval::Withheld(Box::new(response))
    }

    /// The response that asks about a program which a running command is about to execute. The command waits for the next call.
    pub(super) fn ask_by_response(
        &self,
        call: RunningCall,
        question: TakenQuestion,
        key: RequestKey,
    ) -> CallToolResponse {
        let message = question.prompt().message.clone();
        self.server.question(message, Waiting::exec(call, question), key)
    }
}
