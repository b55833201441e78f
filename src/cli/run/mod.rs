//! `pausewatch run`: GNU `timeout` with a clock that stops while the command's thread is paused.
//!
//! The command line and the behaviour are those of GNU `timeout`, see [`crate::exec::supervise`]; the clock is a [`Stopwatch`].
//!
//! 1. Options end at DURATION, the first argument that is not an option; arguments after COMMAND belong to it, also
//!    `--help`. One `--` may stand before DURATION and one before COMMAND.
//! 2. The command starts before the coordinator is connected, and its time counts from its start. If a thread is named
//!    (its own, or one of `--also`) and no address is configured, a coordinator is looked for first
//!    (`default_coordinator.rs`).
//! 3. The environment of the command names its thread and coordinator. A `run` within a `run` uses both, so a pause of the
//!    inner command pauses the outer one too. The command's token opens its thread and those of `--also` only, unless there is no
//!    key to sign one: then it gets our own token.
//! 4. The limit on wall time (`--max-wall`) applies in addition to the other limit; the earlier one ends the command.
//! 5. With `--rules`, programs are judged as they are executed (`judged.rs`).
//! 6. COMMAND of a script can use the terminal while its thread is paused (`terminal.rs`).
//! 7. A problem with the coordinator is only a warning; the command runs, and its time limit holds.
mod args;
#[cfg(feature = "exec-server")]
mod ask;
mod duration;
#[cfg(feature = "exec-server")]
mod judged;
mod pauses;
mod report;
mod terminal;
pub(crate) use args::Args;
pub use duration::parse as parse_duration;

use super::{
    certificate_warnings,
    coordinator::{Coordinator, SignedTokens},
    default_coordinator, exit, failure, lost_link, quote, usage,
};
use crate::{
    client::stopwatch::{AwaitedThread, Registration, Stopwatch, StopwatchController},
    client::{ConfigError, Error, GetPauseStateRequest, Settings},
    core::types::ThreadId,
    exec::supervise::{Ended, ExitAction, Origin, Policy, Process, Program, Signal, SpawnError, Supervisor},
};
use nix::unistd::getpgrp;
use pauses::Pauses;
use report::{Clocks, Target};
use rustix::process::Pid;
use std::{
    future::pending,
    io,
    process::{ExitCode, ExitStatus},
    time::Duration,
};
use terminal::{Loan, Reason, Terminal};

/// Runs the command and returns the exit code, or dies by the signal that killed the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let plan = match Plan::new(args) {
        Ok(plan) => plan,
        Err(problem) => return usage::exit_code(&args::usage_error(&problem), exit::OWN_FAILURE),
    };
    let runtime = match crate::cli::runtime::start() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let result = runtime.block_on(plan.carry_out());
    // This waits neither for a host name that is being resolved, nor for the private coordinator: both end with this
    // process.
    std::mem::forget(runtime);
    match result {
        Ok(action) => {
            if let ExitAction::Die { dumped_core: true, .. } = action {
                say("the monitored command dumped core");
            }
            action.carry_out()
        }
        Err(code) => code,
    }
}

/// The parsed command line.
struct Plan {
    limit: Duration,
    max_wall: Duration,
    report: Option<Target>,
    program: Program,
    #[cfg(feature = "exec-server")]
    judge: Option<judged::Judge>,
    policy: Policy,
    verbose: bool,
    settings: Settings,
    /// Tokens for the command's thread, if there is a key to sign them.
    signed: Option<SignedTokens>,
    /// The thread of the command, then those that it waits for.
    thread_ids: Vec<String>,
    /// Where the thread was found; `None`: it is a new one.
    thread_source: Option<&'static str>,
    private: bool,
    disconnect_grace: Duration,
}

impl Plan {
    fn new(args: Args) -> Result<Self, String> {
        let (limit, mut program) = args::operands(&args.operands)?;
        program.death_signal = Some(args.signal);
        let settings = match args.private {
            true => args.connection.without_coordinator(),
            false => args.connection.settings(),
        };
        let settings = settings.map_err(|why| why.to_string())?;
        let thread_source = args.thread.source(&settings);
        let thread_id = args.thread.or(&settings).unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        ThreadId::parse("thread_id", &thread_id).map_err(|error| error.to_string())?;
        for also in &args.also {
            ThreadId::parse("--also", also).map_err(|error| error.to_string())?;
            if *also == thread_id {
                return Err(format!("--also {also:?}: that is the thread of COMMAND itself, which is followed anyway"));
            }
        }
        let thread_ids: Vec<_> = [thread_id].into_iter().chain(args.also).collect();
        // A private coordinator signs its own tokens.
        let signer = args.key.signer()?;
        let signed = signer.map(|signer| SignedTokens::sign(signer, &thread_ids, limit)).transpose()?;
        #[cfg(feature = "exec-server")]
        let judge = match args.rules.is_empty() {
            true => None,
            false => Some(judged::Judge::new(&args.rules, args.ask)?),
        };
        #[cfg(feature = "exec-server")]
        judge.iter().flat_map(judged::Judge::warnings).for_each(|warning| say(&format!("warning: {warning}")));
        Ok(Self {
            #[cfg(feature = "exec-server")]
            judge,
            limit,
            max_wall: args.max_wall,
            report: args.report,
            program,
            policy: Policy {
                signal: args.signal,
                kill_after: args.kill_after,
                foreground: args.foreground,
                preserve_status: args.preserve_status,
            },
            verbose: args.verbose,
            settings,
            signed,
            thread_ids,
            thread_source,
            private: args.private,
            disconnect_grace: args.disconnect_grace,
        })
    }

    async fn carry_out(mut self) -> Result<ExitAction, ExitCode> {
        let command = quote::quoted(&self.program.name);
        let started_in = getpgrp().as_raw();
        let supervisor = Supervisor::new(self.policy.clone()).map_err(|error| fail(&error))?;
        // Dropping it at the end removes its socket.
        let coordinator = self.coordinator().await.map_err(|error| fail(&error))?;
        if let Some(coordinator) = &coordinator {
            let named = self.thread_source.map(|source| (self.thread_id(), source));
            if self.verbose && (named.is_some() || !coordinator.is_private()) {
                say(&coordinator.described(named));
            }
            self.program.env = coordinator.environment(self.thread_id());
        }
        let pauses = Pauses::default();
        let stopwatch = self.stopwatch();
        let terminal = (!self.policy.foreground).then(|| Terminal::of(started_in)).flatten();
        let job = match supervisor.start(|| self.start(&stopwatch)) {
            Ok(job) => job,
            Err(error) => {
                let code = failure::cannot_run("run", &self.program.name, &error);
                let ended = Ended { action: ExitAction::Exit(error.exit_code()), timed_out: false };
                self.write_report(&ended, Clocks::default(), &pauses, None).await;
                return Err(code);
            }
        };
        let is_lent = terminal.as_ref().is_some_and(Terminal::has_lender);
        let follows = !self.limit.is_zero() || self.report.is_some();
        let _registered = coordinator.as_ref().filter(|_| follows || is_lent).map(|coordinator| {
            let controller = StopwatchController::with_disconnect_grace(coordinator.client(), self.disconnect_grace);
            if follows && !coordinator.is_private() {
                lost_link::warn(coordinator.address(), &controller, self.disconnect_grace, say);
            }
            if self.report.is_some() {
                pauses.follow(&coordinator.client(), &self.thread_ids);
            }
            self.register(&controller, &stopwatch)
        });
        let loan = Loan::default();
        let sending = |signal: Signal, origin| {
            if self.verbose {
                say(&format!("sending signal {signal} to command {command}"));
            }
            if origin == Origin::Outside {
                loan.pass_on(signal);
            }
        };
        let lending = async {
            let Some(terminal) = terminal else { return pending().await };
            let is_held = async || self.is_held(coordinator.as_ref()).await;
            let mut said = Vec::new();
            let say = |reason: Reason| {
                if !said.contains(&reason) {
                    said.push(reason);
                    say(&format!("command {command} is stopped because it uses the terminal; {}", reason.advice()));
                }
            };
            terminal.lend(&loan, &stopwatch, is_held, say).await
        };
        let ended = tokio::select! {
            biased;
            ended = job.supervise(stopwatch.expired(), sending) => ended,
            never = lending => match never {},
        };
        let ended = ended.map_err(|error| {
            say(&format!("error waiting for command: {error}"));
            ExitCode::from(exit::OWN_FAILURE)
        })?;
        let clocks = Clocks { times: stopwatch.times(), ended_by: stopwatch.ended_by() };
        self.write_report(&ended, clocks, &pauses, coordinator.as_ref()).await;
        Ok(ended.action)
    }

    fn start(&self, stopwatch: &Stopwatch) -> Result<Command, SpawnError> {
        #[cfg(feature = "exec-server")]
        if let Some(judge) = &self.judge {
            return Ok(Command::Judged(judge.start(&self.program, stopwatch.clone(), !self.policy.foreground)?));
        }
        let _ = stopwatch;
        Ok(Command::Plain(self.program.spawn()?))
    }

    fn thread_id(&self) -> &str {
        // There is always one.
        self.thread_ids.first().map_or("", String::as_str)
    }

    fn register(
        &self,
        controller: &StopwatchController,
        stopwatch: &Stopwatch,
    ) -> Result<(Registration, Vec<AwaitedThread>), Error> {
        let registered = controller.register(self.thread_id(), stopwatch)?;
        let also = self.thread_ids.iter().skip(1);
        let awaited = also.map(|thread_id| registered.await_thread(thread_id)).collect::<Result<_, _>>()?;
        Ok((registered, awaited))
    }

    /// Whether the coordinator says that a thread is paused.
    async fn is_held(&self, coordinator: Option<&Coordinator>) -> bool {
        let Some(client) = coordinator.map(Coordinator::client) else { return false };
        for thread_id in &self.thread_ids {
            let state = client.get_pause_state(GetPauseStateRequest { thread_id: thread_id.clone() }).await;
            if state.is_ok_and(|state| state.pause_state.is_some_and(|state| state.count > 0)) {
                return true;
            }
        }
        false
    }

    /// 0 means no limit, for both.
    fn stopwatch(&self) -> Stopwatch {
        let mut limits = Stopwatch::builder();
        if !self.limit.is_zero() {
            limits = limits.limit(self.limit);
        }
        if !self.max_wall.is_zero() {
            limits = limits.max_wall(self.max_wall);
        }
        limits.start()
    }

    async fn write_report(&self, ended: &Ended, clocks: Clocks, pauses: &Pauses, coordinator: Option<&Coordinator>) {
        let Some(target) = &self.report else { return };
        // COMMAND must not end later because of the report.
        if let ExitAction::KillGroup(Some(command)) = ended.action {
            let _ = Signal::KILL.send(command);
        }
        if let Some(coordinator) = coordinator {
            pauses.complete(&coordinator.client()).await;
        }
        if let Err(why) = target.write(&report::report(ended, clocks, pauses)).await {
            say(&format!("warning: the report is not written: {why}"));
        }
    }

    async fn coordinator(&mut self) -> Result<Option<Coordinator>, ConfigError> {
        // A thread that COMMAND waits for is named too, even if that of COMMAND is a new one.
        let named = self.thread_ids.get(usize::from(self.thread_source.is_none()));
        default_coordinator::choose("run", &mut self.settings, named.map(String::as_str), self.private).await;
        if self.settings.address.is_some() {
            certificate_warnings::report("run", &self.settings);
            return Coordinator::configured(self.settings.clone(), self.signed.take()).map(Some);
        }
        match Coordinator::private(&self.thread_ids).await {
            Ok(coordinator) => Ok(Some(coordinator)),
            Err(why) => {
                say(&format!("warning: no private coordinator: {why}. The time limit holds and cannot be paused"));
                Ok(None)
            }
        }
    }
}

/// COMMAND.
enum Command {
    Plain(tokio::process::Child),
    #[cfg(feature = "exec-server")]
    Judged(judged::Judged),
}

impl Process for Command {
    async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Plain(child) => Process::wait(child).await,
            #[cfg(feature = "exec-server")]
            Self::Judged(judged) => judged.wait().await,
        }
    }

    async fn started(&mut self) {
        match self {
            Self::Plain(child) => child.started().await,
            #[cfg(feature = "exec-server")]
            Self::Judged(judged) => judged.started().await,
        }
    }

    async fn withdraw(&mut self) {
        match self {
            Self::Plain(child) => child.withdraw().await,
            #[cfg(feature = "exec-server")]
            Self::Judged(judged) => judged.withdraw().await,
        }
    }

    fn id(&self) -> Option<Pid> {
        match self {
            Self::Plain(child) => Process::id(child),
            #[cfg(feature = "exec-server")]
            Self::Judged(judged) => judged.id(),
        }
    }
}

fn fail(error: &dyn std::error::Error) -> ExitCode {
    say(&error.to_string());
    ExitCode::from(exit::OWN_FAILURE)
}

/// Prints a message like `timeout`, with our name.
fn say(message: &str) {
    failure::say("run", message);
}
