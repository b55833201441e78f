//! Whether a command may run, and where: the rules, and the person where they leave it open.
use super::{
    ExecServer,
    ask::{CallAsker, Way, elicitation},
    clock::Clock,
    command::About,
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
use serde_json::Value;
use std::collections::BTreeMap;

/// The key of the one question that a call can be answered with.
const QUESTION: &str = "approval";

/// A call that wants to run a command.
pub(super) struct ExecRequest {
    pub(super) about: About,
    pub(super) login: bool,
    /// Of the command, and of the call where it has one of its own.
    pub(super) clock: Clock,
    pub(super) until: Option<Clock>,
    /// What came of a question that an earlier call was answered with.
    answered: Option<Option<ElicitResult>>,
    /// The thread that the call names.
    thread: Option<String>,
    /// What is asked for, for whoever answers.
    request: Vec<u8>,
}

/// What becomes of it.
pub(super) enum Permit {
    /// It may run.
    Granted { wish: Box<ExecRequest>, sandbox: Option<Sandbox> },
    /// The call is answered with this.
    Answer(Box<CallToolResponse>),
}

impl ExecRequest {
    /// `start`: starts the command's clock, unless it runs already since an earlier call.
    pub(super) fn new(
        server: &ExecServer,
        request: &mut CallToolRequestParams,
        context: &Context,
        arguments: &JsonObject,
        about: About,
        start: impl FnOnce() -> Result<Clock, crate::client::Error>,
    ) -> Result<Self, Refusal> {
        // In one order, whatever order they came in.
        let arguments: BTreeMap<_, _> = arguments.iter().collect();
        let thread = named_thread(context)?;
        let bound = serde_json::to_vec(&(&request.name, &thread, arguments))?;
        let (clock, answered) = match request.request_state.take() {
            None => (start()?, None),
            Some(state) => {
                let clock = server.pending.take(&state, &bound).map_err(|why| Refusal(why.to_owned()))?;
                let answers = request.input_responses.take().unwrap_or_default();
                (clock, answers.get(QUESTION).map(understood))
            }
        };
        Ok(Self { about, login: false, clock, until: None, answered, thread, request: bound })
    }
}

/// `None`: it is no answer to an elicitation.
fn understood(answer: &Value) -> Option<ElicitResult> {
    serde_json::from_value(answer.clone()).ok()
}

impl Caller {
    /// Judges a wish, and has the person asked if it must be. May take as long as a person takes.
    pub(super) async fn permit(&self, mut wish: ExecRequest, context: &Context) -> Result<Permit, Refusal> {
        let config = &self.server.config;
        let shell = config.launcher.shell.to_string_lossy();
        let stopwatches = [Some(&wish.clock), wish.until.as_ref()].into_iter().flatten();
        let stopwatches = stopwatches.map(|clock| clock.stopwatch().clone()).collect();
        let way = Way::of(context, wish.answered.take());
        let asker = CallAsker::new(way, config.policy.when_unable, stopwatches);
        let policy = AskingPolicy::new(config.policy.rules.clone(), asker.clone()).for_lines_of(&shell);
        let argv = [&*shell, if wish.login { "-lc" } else { "-c" }, &wish.about.line].map(str::to_owned);
        let judged = policy.determine_action(&shell, &argv, &wish.about.workdir);
        let action = progress::told(context, wish.until.as_ref().unwrap_or(&wish.clock), judged).await;
        let sandbox = match action {
            Action::Escalate => None,
            Action::Run => config.policy.sandbox.as_ref().map(|sandbox| sandbox.of(&wish.about)),
            Action::Deny { reason } => return Ok(self.not_granted(wish, reason, asker.left_open())),
        };
        Ok(Permit::Granted { wish: Box::new(wish), sandbox })
    }

    fn not_granted(&self, wish: ExecRequest, reason: String, left_open: Option<String>) -> Permit {
        let ExecRequest { clock, thread, request, .. } = wish;
        let answer = match left_open {
            None => structured(Outcome::denied(reason, clock.read())),
            Some(message) => {
                let state = self.server.pending.put(clock, thread, &request);
                let questions = [(QUESTION.to_owned(), InputRequest::Elicitation(elicitation(message)))];
                InputRequiredResult::new(Some(questions.into()), Some(state)).into()
            }
        };
        Permit::Answer(Box::new(answer))
    }
}
