//! The tools that start a command: `shell`, which waits for its end, and `exec_command`, which yields.
use super::{
    clock::Clock,
    command::{About, Command},
    commands::Start,
    handler::{Caller, Context, Refusal, cancelled, structured, workdir},
    progress,
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
        request: CallToolRequestParams,
        context: &Context,
    ) -> Result<CallToolResponse, Refusal> {
        let Shell { command, workdir: named, timeout_ms, login } = parse(request.arguments).map_err(Refusal)?;
        let config = &self.server.config;
        let limit = timeout_ms.map_or(Some(config.limits.timeout), limit);
        let about = About { line: command, workdir: workdir(Some(&named))?, tty: false, stays: false };
        let clock = Clock::start(&config.controller, &self.thread_id(context)?, limit)?;
        let started = self.start(about, login.unwrap_or(false), clock)?;
        let command = started.command();
        let _in_use = command.idle.in_use();
        let ended = progress::told(context, command.clock.stopwatch(), command.ended());
        tokio::select! {
            biased;
            _ = ended => Ok(structured(Outcome::of(command, OUTPUT))),
            () = context.ct.cancelled() => Err(cancelled()),
        }
    }

    pub(super) async fn exec_command(
        &self,
        request: CallToolRequestParams,
        context: &Context,
    ) -> Result<CallToolResponse, Refusal> {
        let arguments: ExecCommand = parse(request.arguments).map_err(Refusal)?;
        let config = &self.server.config;
        let limit = arguments.timeout_ms.and_then(limit);
        let about = About {
            line: arguments.command,
            workdir: workdir(arguments.workdir.as_deref())?,
            tty: arguments.tty.unwrap_or(false),
            stays: true,
        };
        let thread_id = self.thread_id(context)?;
        let clock = Clock::start(&config.controller, &thread_id, limit)?;
        let until = Clock::start(&config.controller, &thread_id, Some(yield_time(arguments.yield_time_ms, YIELD)))?;
        let started = self.start(about, false, clock)?;
        let outcome = self.wait(started.command(), &until, context, most(arguments.max_output_bytes)).await?;
        started.leave();
        Ok(structured(outcome))
    }

    fn start(&self, about: About, login: bool, clock: Clock) -> Result<Started, Refusal> {
        let stop = self.gone.child_token();
        let start = Start { caller: self.number, about, login, clock, stop };
        Ok(Started(Some(self.server.commands.start(start)?)))
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
            () = progress::told(context, until.stopwatch(), waited) => {}
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
