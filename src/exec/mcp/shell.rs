//! The tools that start a command: `shell`, which waits for its end, and `exec_command`, which yields.
use super::{
    approval::{ExecRequest, Permit},
    clock::Clock,
    command::{About, Command},
    commands::Start,
    handler::{Caller, structured, workdir},
    progress,
    refusal::{Refusal, cancelled},
    scope::Context,
    tools::{ExecCommand, OUTPUT, Outcome, Shell, limit, parse},
};
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use std::{sync::Arc, time::Duration};

/// How long a call of `exec_command` waits, unless told otherwise.
pub(super) const YIELD: Duration = Duration::from_secs(10);

/// Tells a command to end when the call that it was started for goes away.
struct Started(Option<Arc<Command>>);

impl Started {
    fn command(&self) -> &Arc<Command> {
        self.0.as_ref().expect("it is taken at the end alone")
    }

    /// It goes on without the call.
    fn leave(mut self) {
        self.0 = None;
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(command) = self.0.take() {
            command.stop.cancel();
        }
    }
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
        let about = About { line: command, workdir: workdir(Some(&named))?, tty: false, stays: false };
        let clock = || Clock::start(&server.config.controller, &thread_id, limit);
        let mut wish = ExecRequest::new(server, &mut request, context, &arguments, about, clock)?;
        wish.login = login.unwrap_or(false);
        let (started, _) = match self.start(wish, context).await? {
            Ok(started) => started,
            Err(answer) => return Ok(*answer),
        };
        let command = started.command();
        let _in_use = command.idle.in_use();
        let ended = progress::told(context, &command.clock, command.ended());
        tokio::select! {
            biased;
            _ = ended => Ok(structured(Outcome::of(command, OUTPUT))),
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
        let about = About {
            line: arguments.command,
            workdir: workdir(arguments.workdir.as_deref())?,
            tty: arguments.tty.unwrap_or(false),
            stays: true,
        };
        let clock = |thread_id: &str, limit| Clock::start(&server.config.controller, thread_id, limit);
        let mut wish = ExecRequest::new(server, &mut request, context, &named, about, || clock(&thread_id, limit))?;
        let until = Some(yield_time(arguments.yield_time_ms, YIELD));
        wish.until = Some(clock(wish.clock.thread_id(), until)?);
        let (started, until) = match self.start(wish, context).await? {
            Ok(started) => started,
            Err(answer) => return Ok(*answer),
        };
        let until = until.ok_or_else(cancelled)?;
        let outcome = self.wait(started.command(), &until, context, most(arguments.max_output_bytes)).await?;
        started.leave();
        Ok(structured(outcome))
    }

    /// Starts what is wished for, if it may run; otherwise says what the call is answered with.
    async fn start(
        &self,
        wish: ExecRequest,
        context: &Context,
    ) -> Result<Result<(Started, Option<Clock>), Box<CallToolResponse>>, Refusal> {
        let scope = self.scope(context);
        let permit = tokio::select! {
            biased;
            permit = self.permit(wish, context) => permit?,
            () = context.ct.cancelled() => return Err(cancelled()),
            () = scope.gone.cancelled() => return Err(cancelled()),
        };
        let (wish, sandbox) = match permit {
            Permit::Granted { wish, sandbox } => (*wish, sandbox),
            Permit::Answer(answer) => return Ok(Err(answer)),
        };
        let ExecRequest { about, login, clock, until, .. } = wish;
        let stop = scope.gone.child_token();
        let start = Start { caller: scope.number, about, login, sandbox, clock, stop };
        Ok(Ok((Started(Some(self.server.commands.start(start)?)), until)))
    }

    /// Waits for the end of a command or of `until`, and answers with how it stands.
    pub(super) async fn wait(
        &self,
        command: &Command,
        until: &Clock,
        context: &Context,
        most: usize,
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
            () = progress::told(context, until, waited) => {}
            () = context.ct.cancelled() => return Err(cancelled()),
        }
        let outcome = Outcome::of(command, most);
        if outcome.exit_code.is_some() {
            self.server.commands.forget(command);
        }
        Ok(outcome)
    }
}

pub(super) fn yield_time(ms: Option<u64>, otherwise: Duration) -> Duration {
    ms.map_or(otherwise, Duration::from_millis)
}

pub(super) fn most(bytes: Option<u64>) -> usize {
    bytes.map_or(OUTPUT, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}
