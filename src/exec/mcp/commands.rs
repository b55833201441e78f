//! The table of commands: those that run, and those whose end was not yet reported.
//!
//! 1. It never has more than `limits.commands`. A new command of a full table evicts the unreported command that ended
//!    first; if all are running, the new one is refused.
//! 2. Only the scope that started a command finds it.
use super::{
    Config,
    clock::Clock,
    command::{Command, CommandSpec},
    exec_questions::ExecQuestions,
    idle::Idle,
    launch::{Judged, Launch, Streams},
    output::Output,
};
use crate::{
    exec::policy::{AskingPolicy, Reach},
    exec::sandbox::Sandbox,
    exec::supervise::{reaper::Reaper, session_killer::SessionKiller},
};
use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long the end of all commands may take beyond `kill_after`.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

pub(super) struct Commands {
    config: Config,
    session_killer: SessionKiller,
    reaper: Reaper,
    running: TaskTracker,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    commands: HashMap<String, Arc<Command>>,
    /// The ids of ended commands, in the order of their ends.
    ended: Vec<String>,
    /// The number of commands that are being started.
    starting: usize,
}

/// The parameters of [`Commands::start`].
pub(super) struct Start {
    pub(super) owner: u64,
    pub(super) spec: CommandSpec,
    pub(super) login: bool,
    pub(super) sandbox: Option<Sandbox>,
    /// Whether a person has said yes to what the rules ask about in the line.
    pub(super) is_approved: bool,
    pub(super) clock: Clock,
    /// Cancelled to end the command.
    pub(super) stop: CancellationToken,
}

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("the limit of {0} running commands is reached: wait for one, or `kill` one of those that `sessions` lists")]
    TooMany(usize),
    #[error("the command cannot be started: {0}")]
    System(#[from] io::Error),
}

impl Commands {
    pub(super) fn new(config: Config) -> Arc<Self> {
        Arc::new(Self {
            reaper: Reaper::start(&config.launcher.program),
            config,
            session_killer: SessionKiller::start(),
            running: TaskTracker::new(),
            table: Mutex::default(),
        })
    }

    pub(super) fn start(self: &Arc<Self>, start: Start) -> Result<Arc<Command>, StartError> {
        let slot = self.reserve()?;
        let Start { owner, spec, login, sandbox, is_approved, clock, stop } = start;
        let streams = match &spec {
            CommandSpec { tty: true, .. } => Streams::Terminal,
            CommandSpec { outlives_call: true, .. } => Streams::Pipe,
            CommandSpec { .. } => Streams::Null,
        };
        let env = (self.config.environment)(clock.thread_id());
        let (line, workdir) = (&spec.line, &spec.workdir);
        let policy = &self.config.policy;
        let in_sandbox = sandbox.as_ref().and(policy.sandbox.as_ref());
        let judged = policy.nested.restricted().zip(in_sandbox).map(|(restricted, sandbox)| Judged {
            restricted,
            line_commands: Arc::new(self.config.line_commands(&spec, sandbox, login, is_approved)),
        });
        let judged = judged.filter(|judged| judged.names().next().is_some());
        let exposed = in_sandbox.map_or_else(|| Arc::new(Reach::default) as _, |sandbox| sandbox.exposed_by(workdir));
        let launch = Launch { line, login, workdir, env, streams, sandbox: sandbox.as_ref(), judged: judged.as_ref() };
        let mut launched = self.config.launcher.launch(launch)?;
        let session = launched.session;
        self.reaper.add(session);
        let limits = self.config.limits;
        let idle = Idle::new(self.config.controller.clone(), clock.thread_id().to_owned(), limits.idle);
        let sandbox = sandbox.and(policy.sandbox.as_ref()).map(|sandbox| sandbox.enforcement);
        let nested = sandbox.map(|_| policy.nested.clone());
        let questions = ExecQuestions::new(spec.line.clone(), clock.stopwatch().clone(), limits.max_pause);
        let command = Arc::new(Command {
            id: slot.id.clone(),
            owner,
            spec,
            sandbox,
            nested,
            clock,
            idle,
            questions,
            notes: Arc::default(),
            stop,
            kill: CancellationToken::new(),
            removed: CancellationToken::new(),
            writer: tokio::sync::Mutex::new(launched.writer.take()),
            output: Mutex::new(Output::new(limits.output)),
            end: watch::Sender::new(None),
        });
        slot.fill(command.clone());
        let (commands, supervised, session_killer) = (self.clone(), command.clone(), self.session_killer.clone());
        let mut exec_policy = AskingPolicy::new(policy.rules.clone(), command.questions.clone());
        if let Some(judged) = judged {
            let notes = command.notes.clone();
            exec_policy = exec_policy.with_line_commands(judged.line_commands, Arc::new(move |note| notes.add(note)));
        }
        self.running.spawn(async move {
            supervised.supervise(launched, limits.kill_after, session_killer, exec_policy, exposed).await;
            commands.reaper.remove(session);
            commands.on_end(&supervised);
        });
        Ok(command)
    }

    /// A command of `exec_command` that `owner` started.
    pub(super) fn find(&self, id: &str, owner: u64) -> Option<Arc<Command>> {
        self.table().commands.get(id).filter(|command| command.owner == owner && command.spec.outlives_call).cloned()
    }

    /// All commands of `exec_command` that `owner` started, the oldest first.
    pub(super) fn list(&self, owner: u64) -> Vec<Arc<Command>> {
        let is_listed = |command: &&Arc<Command>| command.owner == owner && command.spec.outlives_call;
        let mut found: Vec<_> = self.table().commands.values().filter(is_listed).cloned().collect();
        found.sort_by_key(|command| command.clock.started());
        found
    }

    /// Whether there is a command that `owner` started.
    pub(super) fn has_any(&self, owner: u64) -> bool {
        self.table().commands.values().any(|command| command.owner == owner)
    }

    /// Removes a command whose end was reported.
    pub(super) fn remove(&self, command: &Command) {
        command.removed.cancel();
        let mut table = self.table();
        table.commands.remove(&command.id);
        table.ended.retain(|id| *id != command.id);
    }

    /// Waits until no process of any command runs any more; the caller has cancelled their `stop` tokens.
    pub(super) async fn wait_until_empty(&self) {
        self.running.close();
        if tokio::time::timeout(self.config.limits.kill_after + SHUTDOWN_GRACE, self.running.wait()).await.is_err() {
            tracing::warn!(commands = self.running.len(), "commands do not end");
        }
    }

    fn on_end(self: &Arc<Self>, command: &Arc<Command>) {
        if !command.spec.outlives_call {
            return self.remove(command);
        }
        let mut table = self.table();
        if table.commands.contains_key(&command.id) {
            table.ended.push(command.id.clone());
        }
        drop(table);
        // Its result is kept for as long as it could have been idle before.
        drop(command.idle.in_use());
        let (commands, ended) = (self.clone(), command.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = ended.idle.expired() => {}
                // The owner has gone.
                () = ended.stop.cancelled() => {}
                () = ended.removed.cancelled() => {}
            }
            commands.remove(&ended);
        });
    }

    /// Reserves a place in the table, under a new id.
    fn reserve(self: &Arc<Self>) -> Result<Slot, StartError> {
        let mut table = self.table();
        if table.commands.len() + table.starting >= self.config.limits.commands {
            if table.ended.is_empty() {
                return Err(StartError::TooMany(self.config.limits.commands));
            }
            let first = table.ended.remove(0);
            if let Some(command) = table.commands.remove(&first) {
                // Ends the task of `on_end`, which otherwise keeps the command and its output until the idle timeout.
                command.removed.cancel();
            }
        }
        table.starting += 1;
        let id = loop {
            let id = format!("{:08x}", fastrand::u32(..));
            if !table.commands.contains_key(&id) {
                break id;
            }
        };
        Ok(Slot { commands: self.clone(), id })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Each change is one insertion or removal.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reserved place in the table; dropping it releases the reservation.
struct Slot {
    commands: Arc<Commands>,
    id: String,
}

impl Slot {
    fn fill(self, command: Arc<Command>) {
        self.commands.table().commands.insert(self.id.clone(), command);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.commands.table().starting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        client::stopwatch::StopwatchController,
        exec::mcp::{Launcher, Limits, NestedPrograms, Policy, WhenUnable},
        exec::policy::Rules,
    };

    /// A table for one command; every command runs `true`.
    fn commands() -> Arc<Commands> {
        Commands::new(Config {
            controller: StopwatchController::detached(),
            environment: Arc::new(|_| Vec::new()),
            launcher: Launcher { program: "true".into(), shell: "sh".into(), open_files: None },
            thread_id: None,
            policy: Policy {
                rules: Arc::new(Rules::default()),
                when_unable: WhenUnable::Deny,
                sandbox: None,
                nested: NestedPrograms::Judged { restricted: Arc::default(), has_allowed: false },
            },
            limits: Limits { commands: 1, ..Limits::default() },
        })
    }

    fn start(commands: &Arc<Commands>) -> Arc<Command> {
        let clock = Clock::start(&commands.config.controller, "t", None).unwrap();
        let spec = CommandSpec { line: String::new(), workdir: "/".into(), tty: false, outlives_call: true };
        let stop = CancellationToken::new();
        commands.start(Start { owner: 1, spec, login: false, sandbox: None, is_approved: false, clock, stop }).unwrap()
    }

    #[tokio::test]
    async fn an_evicted_command_is_dropped() {
        let commands = commands();
        let first = start(&commands);
        first.ended().await;
        while commands.table().ended.is_empty() {
            tokio::task::yield_now().await;
        }
        let first = Arc::downgrade(&{ first });
        let _second = start(&commands);
        let gone = async {
            while first.strong_count() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone).await.expect("a task still holds the command");
    }
}
