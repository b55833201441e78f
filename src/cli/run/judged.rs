//! `run --rules`: every program that COMMAND executes is judged as it is executed, COMMAND itself too.
//!
//! 1. COMMAND and its supervisor run in our session and process group, so signals and the terminal are as without rules.
//! 2. While a person is being asked, the clock stands still. Only the thread that executes the program waits.
//! 3. If this process is killed, its supervisor kills COMMAND and all of its processes. If the supervisor is killed, COMMAND dies, and the process group
//!    is killed unless it is not ours (`--foreground`).
//! 4. One question at a time. An answer holds until COMMAND ends, for the same file and contents, arguments and directory; a failure to ask is no answer.
use super::{super::failure, ask::Ask};
use crate::{
    client::stopwatch::Stopwatch,
    exec::{
        judge::{self, Judging, Link, connect, save_memory},
        policy::{Action, Asker, AskingPolicy, Prompt, Question, Reach, Rules, command_of},
        supervise::{Process, Program, SpawnError, ignored_at_start, was_closed},
    },
};
use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::HashMap,
    ffi::OsString,
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::Arc,
};
use tokio::{process::Child, sync::Mutex};

const PROGRAM: &str = "/proc/self/exe";
/// The maximum of answers that are remembered.
const MAX_ANSWERS: usize = 1_000;

/// The rules for COMMAND, and how to ask.
pub(super) struct Judge {
    rules: Arc<Rules>,
    ask: Arc<Ask>,
}

impl Judge {
    /// # Errors
    /// A file of rules is invalid, or this system cannot judge programs.
    pub(super) fn new(files: &[PathBuf], ask: Option<String>) -> Result<Self, String> {
        let rules = Rules::load(files).map_err(|error| error.to_string())?;
        judge::probe(Path::new(PROGRAM)).map_err(|why| {
            format!("--rules: this system cannot judge the programs of COMMAND: {why}. Run it without --rules, or where `pausewatch exec-server --rules FILE --check` says that they are judged")
        })?;
        Ok(Self { rules: Arc::new(rules), ask: Arc::new(Ask::new(ask)) })
    }

    /// The parts of the rules that have no effect here.
    pub(super) fn warnings(&self) -> &[String] {
        self.rules.warnings()
    }

    /// Starts the program. `stopwatch` is paused during questions. `owns_group`: this process leads its process group.
    pub(super) fn start(
        &self,
        program: &Program,
        stopwatch: Stopwatch,
        owns_group: bool,
    ) -> Result<Judged, SpawnError> {
        let (supervisor, link) = self.spawn(program).map_err(SpawnError::NoProcess)?;
        let words = [&program.name].into_iter().chain(&program.args).map(|word| word.to_string_lossy());
        let line = shlex::try_join(
            words.clone().map(|word| word.replace('\0', "")).collect::<Vec<_>>().iter().map(String::as_str),
        );
        let asker = RunAsker {
            line: line.unwrap_or_default(),
            ask: self.ask.clone(),
            environment: program.env.clone(),
            stopwatch,
            answers: Mutex::default(),
        };
        let policy = AskingPolicy::new(self.rules.clone(), Arc::new(asker));
        // The program that was denied has printed why.
        let note = |note: String| {
            if !note.starts_with("a program was denied") {
                failure::say("run", &note);
            }
        };
        Ok(Judged {
            judging: Judging::new(link, Arc::new(policy), Arc::new(note), Arc::new(Reach::default)),
            supervisor,
            owns_group,
            ended: None,
        })
    }

    fn spawn(&self, program: &Program) -> io::Result<(Child, Link)> {
        let mut command = Command::new(PROGRAM);
        command.arg("exec-supervisor");
        save_memory(&mut command);
        self.rules.restricted_programs().iter().for_each(|name| _ = command.args(["--name", name]));
        // The supervisor does not judge the first program; that executes COMMAND.
        command.args(["--", "--", PROGRAM, "run-child"]);
        if ignored_at_start() & 1 << (Signal::PIPE.as_raw() - 1) != 0 {
            command.arg("--ignore-pipe");
        }
        if was_closed(io::stdin().as_raw_fd()) {
            command.arg("--close-input");
        }
        command.arg("--").arg(&program.name).args(&program.args);
        command.envs(program.env.iter().map(|(name, value)| (name, value)));
        let (ours, theirs) = connect(io::stdin())?;
        command.stdin(theirs);
        let supervisor = tokio::process::Command::from(command).spawn()?;
        Ok((supervisor, Link::new(ours)?))
    }
}

/// COMMAND, with its supervisor.
pub(super) struct Judged {
    judging: Judging,
    supervisor: Child,
    owns_group: bool,
    /// The result of `wait`.
    ended: Option<io::Result<ExitStatus>>,
}

impl Process for Judged {
    async fn wait(&mut self) -> io::Result<ExitStatus> {
        // Stored, in case this future is dropped while the questions are being withdrawn.
        if self.ended.is_none() {
            self.ended = Some(self.judging.first_process_ended(&mut self.supervisor).await);
            if let Some(process) = self.id() {
                // Its supervisor ended first. COMMAND does not die with the supervisor if it has changed its user.
                let _ = kill_process(process, Signal::KILL);
                if self.owns_group {
                    let _ = crate::exec::supervise::Signal::KILL.send_to_own_group();
                }
            }
        }
        self.judging.withdraw_all().await;
        match &self.ended {
            Some(Ok(status)) => Ok(*status),
            _ => self.ended.take().expect("it is there"),
        }
    }

    async fn started(&mut self) {
        self.judging.first_process_started().await;
    }

    /// Gives the terminal back to the process group that had it before a question.
    async fn withdraw(&mut self) {
        self.judging.withdraw_all().await;
    }

    fn id(&self) -> Option<Pid> {
        self.judging.process().and_then(Pid::from_raw)
    }
}

/// The file of a program, its arguments and its directory as texts, and what identifies them and its environment.
type Key = (PathBuf, Vec<String>, PathBuf, u64);

struct RunAsker {
    line: String,
    ask: Arc<Ask>,
    /// For the command that asks.
    environment: Vec<(OsString, OsString)>,
    stopwatch: Stopwatch,
    /// Locked while a person is being asked.
    answers: Mutex<HashMap<Key, bool>>,
}

#[async_trait]
impl Asker for RunAsker {
    async fn ask(&self, question: &Question<'_>) -> Action {
        let Some(exec) = question.exec else {
            return Action::Deny { reason: "only programs of COMMAND are asked about".to_owned() };
        };
        let prompt = Prompt::about_program(question, exec, &self.line);
        let _pause = self.stopwatch.pause();
        let mut answers = self.answers.lock().await;
        let key = (exec.file.clone(), exec.argv.clone(), exec.workdir.clone(), exec.identity);
        let known = answers.get(&key).filter(|_| exec.is_complete).copied();
        let is_yes = match known {
            Some(is_yes) => is_yes,
            None => match self.ask.ask(&prompt.message, &command_of(exec), &self.environment).await {
                Ok(is_yes) => is_yes,
                Err(why) => return prompt.deny(&why),
            },
        };
        if exec.is_complete && answers.len() < MAX_ANSWERS {
            answers.insert(key, is_yes);
        }
        if is_yes { prompt.accept() } else { prompt.deny("the person declined") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::policy::{EscalationPolicy, Exec};

    #[tokio::test]
    async fn answers_are_remembered_up_to_a_limit() {
        let answer = |number: usize| ((PathBuf::new(), Vec::new(), PathBuf::new(), number as u64), false);
        for (known, remembered) in [(MAX_ANSWERS - 1, MAX_ANSWERS), (MAX_ANSWERS, MAX_ANSWERS)] {
            let asker = Arc::new(RunAsker {
                line: "rm x".to_owned(),
                ask: Arc::new(Ask::new(Some("exit 1".to_owned()))),
                environment: Vec::new(),
                stopwatch: Stopwatch::unlimited(),
                answers: Mutex::new((0..known).map(answer).collect()),
            });
            let rules = Rules::parse("test.rules", "prefix_rule(['rm'], decision='prompt')").unwrap();
            let (program, argv) = ("rm".to_owned(), vec!["rm".to_owned()]);
            let exec = Exec { program, argv, is_complete: true, ..Exec::default() };
            let action = AskingPolicy::new(Arc::new(rules), asker.clone()).determine_exec(&exec).await;
            assert!(matches!(action, Action::Deny { .. }), "{action:?}");
            assert_eq!(asker.answers.lock().await.len(), remembered);
        }
    }
}
