//! The commands that run, and those that have ended and wait to be asked for.
//!
//! 1. There are never more than `limits.commands`; where they are too many, the one that ended first and was not asked
//!    for is forgotten, and only if there is none, a new one is refused.
//! 2. A command is found by its id and by the caller that started it.
use super::{
    Config,
    clock::Clock,
    command::{About, Command},
    idle::Idle,
    launch::{Launch, Streams},
    output::Output,
};
use crate::{
    exec::sandbox::Sandbox,
    exec::supervise::{reaper::Reaper, session_killer::SessionKiller},
};
use std::{
    collections::HashMap,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long an end of all commands may take beyond `kill_after`.
const TO_END: Duration = Duration::from_secs(3);

pub(super) struct Commands {
    config: Config,
    sweeper: SessionKiller,
    warden: Option<Reaper>,
    running: TaskTracker,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    commands: HashMap<String, Arc<Command>>,
    /// Ids of those that have ended, the first first.
    ended: Vec<String>,
    /// Places taken by those that are being started.
    starting: usize,
}

/// What to start.
pub(super) struct Start {
    pub(super) caller: u64,
    pub(super) about: About,
    pub(super) login: bool,
    pub(super) sandbox: Option<Sandbox>,
    pub(super) clock: Clock,
    /// Told to end with it.
    pub(super) stop: CancellationToken,
}

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("{0} commands run already, which is the most: wait for one, or `kill` one of those that `sessions` lists")]
    TooMany(usize),
    #[error("the command cannot be started: {0}")]
    System(#[from] io::Error),
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commands").field("running", &self.running.len()).finish_non_exhaustive()
    }
}

impl Commands {
    pub(super) fn new(config: Config) -> Arc<Self> {
        let (sweeper, running) = (SessionKiller::start(), TaskTracker::new());
        let warden = Reaper::start(&config.launcher.program);
        let warden =
            warden.inspect_err(|error| tracing::warn!(%error, "nobody ends the commands if this server is killed"));
        Arc::new(Self { config, sweeper, warden: warden.ok(), running, all: Mutex::default() })
    }

    pub(super) fn start(self: &Arc<Self>, start: Start) -> Result<Arc<Command>, StartError> {
        let place = self.place()?;
        let Start { caller, about, login, sandbox, clock, stop } = start;
        let streams = match &about {
            About { tty: true, .. } => Streams::Terminal,
            About { stays: true, .. } => Streams::Pipe,
            About { .. } => Streams::Null,
        };
        let env = (self.config.environment)(clock.thread_id());
        let (line, workdir) = (&about.line, &about.workdir);
        let launch = Launch { line, login, workdir, env, streams, sandbox: sandbox.as_ref() };
        let mut launched = self.config.launcher.launch(launch)?;
        let session = launched.session;
        self.warden.iter().for_each(|warden| warden.watch(session));
        let limits = self.config.limits;
        let idle = Idle::new(self.config.controller.clone(), clock.thread_id().to_owned(), limits.idle);
        let output = Output::new(limits.output);
        let policy = self.config.policy.sandbox.as_ref();
        let sandbox = sandbox.and(policy).map(|sandbox| sandbox.enforcement);
        let (id, writer) = (place.id.clone(), launched.writer.take());
        let command = Arc::new(Command::new(id, caller, about, sandbox, clock, idle, stop, writer, output));
        place.fill(command.clone());
        let (commands, supervised, sweeper) = (self.clone(), command.clone(), self.sweeper.clone());
        self.running.spawn(async move {
            supervised.supervise(launched, limits.kill_after, sweeper).await;
            commands.warden.iter().for_each(|warden| warden.leave(session));
            commands.has_ended(&supervised);
        });
        Ok(command)
    }

    pub(super) fn find(&self, id: &str, caller: u64) -> Option<Arc<Command>> {
        self.all().commands.get(id).filter(|command| command.caller == caller && command.about.stays).cloned()
    }

    /// Those of `caller` that stay, the oldest first.
    pub(super) fn of(&self, caller: u64) -> Vec<Arc<Command>> {
        let mut found: Vec<_> =
            self.all().commands.values().filter(|c| c.caller == caller && c.about.stays).cloned().collect();
        found.sort_by_key(|command| std::cmp::Reverse(command.clock.read().wall));
        found
    }

    /// Its end has been told: it is not found any more.
    pub(super) fn forget(&self, command: &Command) {
        command.forgotten.cancel();
        let mut all = self.all();
        all.commands.remove(&command.id);
        all.ended.retain(|id| *id != command.id);
    }

    /// Waits until nothing of any command runs any more. They must have been told to end.
    pub(super) async fn all_ended(&self) {
        self.running.close();
        if tokio::time::timeout(self.config.limits.kill_after + TO_END, self.running.wait()).await.is_err() {
            tracing::warn!(commands = self.running.len(), "commands do not end");
        }
    }

    fn has_ended(self: &Arc<Self>, command: &Arc<Command>) {
        if !command.about.stays {
            return self.forget(command);
        }
        let mut all = self.all();
        if all.commands.contains_key(&command.id) {
            all.ended.push(command.id.clone());
        }
        drop(all);
        let (commands, ended) = (self.clone(), command.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = ended.idle.too_long() => {}
                // Its caller has gone, or has its end from `kill`.
                () = ended.stop.cancelled() => {}
                () = ended.forgotten.cancelled() => {}
            }
            commands.forget(&ended);
        });
    }

    /// A place for one more, under a new id.
    fn place(self: &Arc<Self>) -> Result<Place, StartError> {
        let mut all = self.all();
        if all.commands.len() + all.starting >= self.config.limits.commands {
            if all.ended.is_empty() {
                return Err(StartError::TooMany(self.config.limits.commands));
            }
            let first = all.ended.remove(0);
            if let Some(command) = all.commands.remove(&first) {
                // Who waits for that would keep it, and its output, as long as it may be idle.
                command.forgotten.cancel();
            }
        }
        all.starting += 1;
        let id = loop {
            let id = format!("{:08x}", fastrand::u32(..));
            if !all.commands.contains_key(&id) {
                break id;
            }
        };
        Ok(Place { commands: self.clone(), id })
    }

    fn all(&self) -> MutexGuard<'_, All> {
        // Each change is one insertion or removal.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among the commands, free again when it is dropped.
struct Place {
    commands: Arc<Commands>,
    id: String,
}

impl Place {
    fn fill(self, command: Arc<Command>) {
        self.commands.all().commands.insert(self.id.clone(), command);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.commands.all().starting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        client::stopwatch::StopwatchController,
        exec::mcp::{Launcher, Limits, Policy, WhenUnable},
        exec::policy::Rules,
    };

    /// One at a time; whatever is to be run is `true`.
    fn commands() -> Arc<Commands> {
        Commands::new(Config {
            controller: StopwatchController::detached(),
            environment: Arc::new(|_| Vec::new()),
            launcher: Launcher { program: "true".into(), shell: "sh".into() },
            thread_id: None,
            policy: Policy { rules: Arc::new(Rules::default()), when_unable: WhenUnable::Deny, sandbox: None },
            limits: Limits { commands: 1, ..Limits::default() },
        })
    }

    fn start(commands: &Arc<Commands>) -> Arc<Command> {
        let clock = Clock::start(&commands.config.controller, "t", None).unwrap();
        let about = About { line: String::new(), workdir: "/".into(), tty: false, stays: true };
        let stop = CancellationToken::new();
        commands.start(Start { caller: 1, about, login: false, sandbox: None, clock, stop }).unwrap()
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_command_that_made_room() {
        let commands = commands();
        let first = start(&commands);
        first.ended().await;
        while commands.all().ended.is_empty() {
            tokio::task::yield_now().await;
        }
        let first = Arc::downgrade(&{ first });
        let _second = start(&commands);
        let gone = async {
            while first.strong_count() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone).await.expect("somebody has it still");
    }
}
