//! The tools that start a command: `shell`, which waits for its end, and `exec_command`, which does not have to.
use super::{
    approval::{Approval, ExecRequest},
    clock::Clock,
    command::CommandSpec,
    commands::Start,
    handler::{Caller, structured, workdir},
    progress,
    refusal::{Refusal, cancelled},
    request_key::RequestKey,
    running_call::RunningCall,
    scope::Context,
    tools::{DEFAULT_MAX_OUTPUT, ExecCommand, Outcome, Shell, limit, parse},
};
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use std::time::Duration;
use tokio_util::sync::DropGuard;

/// The default of `yield_time_ms`.
pub(super) const DEFAULT_YIELD_TIME: Duration = Duration::from_secs(10);

impl Caller {
    pub(super) async fn shell(
        &self,
        mut request: CallToolRequestParams,
        context: &Context,
    ) -> Result<CallToolResponse, Refusal> {
        let arguments = request.arguments.take().unwrap_or_default();
        let Shell { command, workdir: named, timeout_ms, login } = parse(&arguments)?;
        let (server, thread_id) = (&self.server, self.thread_id(context)?);
        let limit = timeout_ms.map_or(server.config.limits.timeout, limit);
        let key = RequestKey::new("shell", context, &arguments)?;
        // Before its directory is looked for: the command may have removed it.
        if let Some(call) = server.answered_exec(&mut request, &key) {
            return self.wait(call, context, DEFAULT_MAX_OUTPUT, key).await;
        }
        let workdir = workdir(Some(&named)).await?;
        let start_key = key.in_directory(&workdir);
        let spec = CommandSpec { line: command, workdir, tty: false, outlives_call: false };
        let (clock, answered) = match server.answered_start(&mut request, &start_key)? {
            None => (Clock::start(&server.config.controller, &thread_id, limit)?, None),
            Some(answered) => answered,
        };
        let mut exec_request = ExecRequest::new(spec, clock, answered, start_key);
        exec_request.login = login.unwrap_or(false);
        match self.start(exec_request, context).await? {
            Ok(call) => self.wait(call, context, DEFAULT_MAX_OUTPUT, key).await,
            Err(response) => Ok(*response),
        }
    }

    pub(super) async fn exec_command(
        &self,
        mut request: CallToolRequestParams,
        context: &Context,
    ) -> Result<CallToolResponse, Refusal> {
        let named = request.arguments.take().unwrap_or_default();
        let arguments: ExecCommand = parse(&named)?;
        let (server, thread_id) = (&self.server, self.thread_id(context)?);
        let limit = arguments.timeout_ms.and_then(limit);
        let max_bytes = max_output(arguments.max_output_bytes);
        let key = RequestKey::new("exec_command", context, &named)?;
        if let Some(call) = server.answered_exec(&mut request, &key) {
            return self.wait(call, context, max_bytes, key).await;
        }
        let workdir = workdir(arguments.workdir.as_deref()).await?;
        let start_key = key.in_directory(&workdir);
        let tty = arguments.tty.unwrap_or(false);
        let spec = CommandSpec { line: arguments.command, workdir, tty, outlives_call: true };
        let (clock, answered) = match server.answered_start(&mut request, &start_key)? {
            None => (Clock::start(&server.config.controller, &thread_id, limit)?, None),
            Some(answered) => answered,
        };
        let until = Some(yield_time(arguments.yield_time_ms, DEFAULT_YIELD_TIME));
        let until = Clock::start(&server.config.controller, clock.thread_id(), until)?;
        let mut exec_request = ExecRequest::new(spec, clock, answered, start_key);
        exec_request.until = Some(until);
        match self.start(exec_request, context).await? {
            Ok(call) => self.wait(call, context, max_bytes, key).await,
            Err(response) => Ok(*response),
        }
    }

    /// Starts a command if it is approved; otherwise returns the response to the call.
    async fn start(
        &self,
        request: ExecRequest,
        context: &Context,
    ) -> Result<Result<RunningCall, Box<CallToolResponse>>, Refusal> {
        let scope = self.scope(context);
        let approval = tokio::select! {
            biased;
            approval = self.approve(request, context) => approval?,
            () = context.ct.cancelled() => return Err(cancelled()),
            () = scope.closed.cancelled() => return Err(cancelled()),
        };
        let (request, sandbox, is_approved) = match approval {
            Approval::Granted { request, sandbox, is_approved } => (*request, sandbox, is_approved),
            Approval::Withheld(response) => return Ok(Err(response)),
        };
        let ExecRequest { spec, login, clock, until, .. } = request;
        let stop = scope.closed.child_token();
        let start = Start { owner: scope.id, spec, login, sandbox, is_approved, clock, stop: stop.clone() };
        let command = self.server.commands.start(start)?;
        Ok(Ok(RunningCall { command, stop: Some(stop.drop_guard()), until }))
    }

    /// Waits until the command of a call ends or its yield deadline expires, and returns the state of the command; or the question about a
    /// program that the client has to ask.
    pub(super) async fn wait(
        &self,
        mut call: RunningCall,
        context: &Context,
        max_bytes: usize,
        key: RequestKey,
    ) -> Result<CallToolResponse, Refusal> {
        let command = call.command.clone();
        let in_use = command.idle.in_use();
        let clock = call.until.as_ref().unwrap_or(&command.clock);
        let waited = tokio::select! {
            biased;
            // The output of the command stays there for another call.
            () = context.ct.cancelled() => return Err(cancelled()),
            waited = progress::notify_during(context, clock, call.wait(context, &self.server.config)) => waited,
        };
        if let Err(question) = waited {
            return Ok(self.ask_by_response(call, question, key));
        }
        drop(in_use);
        let outcome = Outcome::of(&command, max_bytes);
        if outcome.exit_code.is_some() {
            self.server.commands.remove(&command);
        }
        // From here on it outlives the call.
        call.stop.take().map(DropGuard::disarm);
        Ok(structured(outcome))
    }
}

pub(super) fn yield_time(ms: Option<u64>, default: Duration) -> Duration {
    ms.map_or(default, Duration::from_millis)
}

pub(super) fn max_output(bytes: Option<u64>) -> usize {
    bytes.map_or(DEFAULT_MAX_OUTPUT, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}
