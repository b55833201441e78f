//! The tools that start a command: `shell`, which waits for its end, and `exec_command`, which does not have to.
use super::{
    approval::{Approval, ExecRequest},
    clock::Clock,
    command::{Command, CommandSpec},
    commands::Start,
    handler::{Caller, structured, workdir},
    progress,
    refusal::{Refusal, cancelled},
    scope::Context,
    tools::{DEFAULT_MAX_OUTPUT, ExecCommand, Outcome, Shell, limit, parse},
};
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::DropGuard;

/// The default of `yield_time_ms`.
pub(super) const DEFAULT_YIELD_TIME: Duration = Duration::from_secs(10);

/// A started command. Dropping this ends the command, unless `stop` was disarmed.
struct Started {
    command: Arc<Command>,
    stop: DropGuard,
    /// The clock of `yield_time_ms`.
    until: Option<Clock>,
}

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
        let spec = CommandSpec { line: command, workdir: workdir(Some(&named))?, tty: false, outlives_call: false };
        let clock = || Clock::start(&server.config.controller, &thread_id, limit);
        let mut exec_request = ExecRequest::new(server, &mut request, context, &arguments, spec, clock)?;
        exec_request.login = login.unwrap_or(false);
        let Started { command, stop: _stop, .. } = match self.start(exec_request, context).await? {
            Ok(started) => started,
            Err(response) => return Ok(*response),
        };
        let _in_use = command.idle.in_use();
        let ended = progress::notify_during(context, &command.clock, command.ended());
        tokio::select! {
            biased;
            _ = ended => Ok(structured(Outcome::of(&command, DEFAULT_MAX_OUTPUT))),
            () = context.ct.cancelled() => Err(cancelled()),
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
        let spec = CommandSpec {
            line: arguments.command,
            workdir: workdir(arguments.workdir.as_deref())?,
            tty: arguments.tty.unwrap_or(false),
            outlives_call: true,
        };
        let clock = |thread_id: &str, limit| Clock::start(&server.config.controller, thread_id, limit);
        let start_clock = || clock(&thread_id, limit);
        let mut exec_request = ExecRequest::new(server, &mut request, context, &named, spec, start_clock)?;
        let until = Some(yield_time(arguments.yield_time_ms, DEFAULT_YIELD_TIME));
        exec_request.until = Some(clock(exec_request.clock.thread_id(), until)?);
        let Started { command, stop, until } = match self.start(exec_request, context).await? {
            Ok(started) => started,
            Err(response) => return Ok(*response),
        };
        let until = until.ok_or_else(cancelled)?;
        let outcome = self.wait(&command, &until, context, max_output(arguments.max_output_bytes)).await?;
        stop.disarm();
        Ok(structured(outcome))
    }

    /// Starts a command if it is approved; otherwise returns the response to the call.
    async fn start(
        &self,
        request: ExecRequest,
        context: &Context,
    ) -> Result<Result<Started, Box<CallToolResponse>>, Refusal> {
        let scope = self.scope(context);
        let approval = tokio::select! {
            biased;
            approval = self.approve(request, context) => approval?,
            () = context.ct.cancelled() => return Err(cancelled()),
            () = scope.closed.cancelled() => return Err(cancelled()),
        };
        let (request, sandbox) = match approval {
            Approval::Granted { request, sandbox } => (*request, sandbox),
            Approval::Withheld(response) => return Ok(Err(response)),
        };
        let ExecRequest { spec, login, clock, until, .. } = request;
        let stop = scope.closed.child_token();
        let start = Start { owner: scope.id, spec, login, sandbox, clock, stop: stop.clone() };
        let command = self.server.commands.start(start)?;
        Ok(Ok(Started { command, stop: stop.drop_guard(), until }))
    }

    /// Waits until a command ends or `until` expires, and returns the state of the command.
    pub(super) async fn wait(
        &self,
        command: &Command,
        until: &Clock,
        context: &Context,
        max_bytes: usize,
    ) -> Result<Outcome, Refusal> {
        let _in_use = command.idle.in_use();
        let waited = async {
            tokio::select! {
                biased;
                _ = command.ended() => {}
                () = until.stopwatch().expired() => {}
            }
        };
        tokio::select! {
            biased;
            () = progress::notify_during(context, until, waited) => {}
            () = context.ct.cancelled() => return Err(cancelled()),
        }
        let outcome = Outcome::of(command, max_bytes);
        if outcome.exit_code.is_some() {
            self.server.commands.remove(command);
        }
        Ok(outcome)
    }
}

pub(super) fn yield_time(ms: Option<u64>, default: Duration) -> Duration {
    ms.map_or(default, Duration::from_millis)
}

pub(super) fn max_output(bytes: Option<u64>) -> usize {
    bytes.map_or(DEFAULT_MAX_OUTPUT, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}
