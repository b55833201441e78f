//! Turns a judgement into an action: run in the sandbox, run outside it, or do not run.
use super::{Decision, Exec, Judgement, LineCommands, Place, Rules, evaluate::Decided, shown::command_of};
use crate::escape::escaped_lines;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// The maximum of a program in a note, in characters.
const MAX_COMMAND: usize = 120;
/// The maximum of notes about programs that have stayed in the sandbox.
const MAX_NOTES: usize = 8;

/// The action for a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Run it inside the sandbox.
    Run,
    /// Run it outside the sandbox; of a line whose programs are judged, those that its rules ask about.
    Escalate,
    /// As if a rule allowed it: nobody was asked.
    Allow,
    /// Do not run it.
    Deny {
        /// Why not, in words for the caller.
        reason: String,
    },
}

/// Decides about each command before it starts.
#[async_trait]
pub trait EscalationPolicy: Send + Sync {
    /// Determines the action for `program`, run with `argv` (its own name included) in `workdir`. It may take as long as a
    /// person takes.
    ///
    /// # Cancel safety
    /// If the future is dropped, the question is abandoned and nothing has run.
    async fn determine_action(&self, program: &str, argv: &[String], workdir: &Path) -> Action;

    /// Determines the action for a program that a running command is about to execute, at any depth. Only the thread that executes it
    /// waits.
    ///
    /// # Cancel safety
    /// If the future is dropped, the question is abandoned and the program has not run.
    async fn determine_exec(&self, exec: &Exec) -> Action;
}

/// A question that the rules leave to a person.
#[derive(Debug)]
pub struct Question<'a> {
    /// The program as it will be started.
    pub program: &'a str,
    /// Its arguments, its own name included.
    pub argv: &'a [String],
    /// Where it will run.
    pub workdir: &'a Path,
    /// If a running command is about to execute the program: all that is known about it.
    pub exec: Option<&'a Exec>,
    /// Which command is in question, by which rule, and why.
    pub judgement: &'a Judgement,
}

impl Question<'_> {
    /// The action after a plain yes: outside the sandbox if a rule asked, inside it if only a doubt did.
    pub fn accepted(&self) -> Action {
        match self.judgement.rule {
            Some(_) => Action::Escalate,
            None => Action::Run,
        }
    }
}

/// Puts questions to a person.
#[async_trait]
pub trait Asker: Send + Sync {
    /// The person's answer: [`Question::accepted`] or another action. For a no, a cancel, or if nobody can be asked:
    /// `Deny` with that reason.
    async fn ask(&self, question: &Question<'_>) -> Action;
}

/// The default policy: the rules, and a person if a rule prompts.
pub struct AskingPolicy {
    rules: Arc<Rules>,
    asker: Arc<dyn Asker>,
    /// The shell that runs command lines.
    shell: Option<String>,
    /// Why a person is asked about a command that would otherwise run inside the sandbox.
    objection: Option<String>,
    /// What a person should know before a yes to what a rule asks about.
    consequence: Option<String>,
    /// Whether the programs of a command in the sandbox are judged as they are executed.
    judges_programs: bool,
    /// For a running command in the sandbox: the programs that may leave it without a further question.
    leaving: Option<Leaving>,
}

/// See [`AskingPolicy::with_line_commands`].
struct Leaving {
    commands: Arc<LineCommands>,
    note: Arc<dyn Fn(String) + Send + Sync>,
    /// The names of programs that were noted, each with the reason.
    noted: Mutex<BTreeSet<(String, String)>>,
}

impl AskingPolicy {
    /// Judges by `rules` and asks by `asker`.
    pub fn new(rules: Arc<Rules>, asker: Arc<dyn Asker>) -> Self {
        let (shell, objection, consequence, leaving) = (None, None, None, None);
        Self { rules, asker, shell, objection, consequence, judges_programs: false, leaving }
    }

    /// For a caller that runs each command line with `shell`, by `-c` or `-lc`: only the line is judged. The shell is
    /// chosen by the caller and needs no rule.
    #[must_use]
    pub fn for_lines_of(self, shell: &str) -> Self {
        Self { shell: Some(shell.to_owned()), ..self }
    }

    /// With an objection, a person is asked before anything runs inside the sandbox.
    #[must_use]
    pub fn with_objection(self, objection: Option<String>) -> Self {
        Self { objection, ..self }
    }

    /// What a person should know before a yes to what a rule asks about.
    #[must_use]
    pub fn with_consequence(self, consequence: Option<String>) -> Self {
        Self { consequence, ..self }
    }

    /// For a caller that has each program of a command in the sandbox judged as it is executed. Then a doubt about a command line needs no
    /// question, unless execution would not show what runs.
    #[must_use]
    pub fn with_judged_programs(self, judges_programs: bool) -> Self {
        Self { judges_programs, ..self }
    }

    /// For the programs of a running command in the sandbox: which of them leave it. `note` gets a sentence for each that could leave and does
    /// not. Without this, an allowed program runs where the program that starts it runs.
    #[must_use]
    pub(crate) fn with_line_commands(
        self,
        commands: Arc<LineCommands>,
        note: Arc<dyn Fn(String) + Send + Sync>,
    ) -> Self {
        Self { leaving: Some(Leaving { commands, note, noted: Mutex::default() }), ..self }
    }

    fn judge(&self, program: &str, argv: &[String]) -> Judgement {
        let mut judgement = match argv {
            [_, option, line] if self.shell.as_deref() == Some(program) && matches!(&**option, "-c" | "-lc") => {
                self.rules.judge(line)
            }
            argv => self.rules.judge_argv(program, argv),
        };
        let is_doubt = judgement.decision == Some(Decision::Prompt) && judgement.rule.is_none();
        if self.judges_programs && is_doubt && !judgement.is_unseen {
            judgement.decision = None;
        }
        // An allowed line runs inside the sandbox too: only programs leave it.
        if let Some(objection) = self.objection.as_ref().filter(|_| judgement.decision != Some(Decision::Forbidden)) {
            if judgement.decision == Some(Decision::Allow) {
                // The objection asks and not the rule.
                judgement.rule = None;
            }
            judgement.decision = Some(Decision::Prompt);
            judgement.objection = Some(objection.clone());
        }
        if judgement.rule.is_some() {
            judgement.consequence.clone_from(&self.consequence);
        }
        judgement
    }

    /// What becomes of a program that no rule asks about or forbids.
    fn unasked(&self, exec: &Exec) -> Action {
        let Some(leaving) = self.leaving.as_ref().filter(|_| exec.place == Place::Sandbox) else { return Action::Run };
        if !self.rules.allow_somewhere(&exec.argv) {
            return Action::Run;
        }
        leaving.result(exec, leaving.commands.leave(exec, Decided::Allowed))
    }

    async fn ask_about(&self, exec: &Exec, mut judgement: Judgement) -> Action {
        let leaving = self.leaving.as_ref().filter(|_| exec.place == Place::Sandbox && judgement.rule.is_some());
        if let Some(leaving) = leaving {
            if leaving.commands.leave_as_approved(exec) {
                return Action::Escalate;
            }
            judgement.consequence = match leaving.commands.consequence(exec) {
                Ok(consequence) => consequence,
                Err(why) => Some(format!("Even after a yes it runs inside the sandbox: {why}.")),
            };
        }
        let Exec { program, argv, workdir, .. } = exec;
        let question = Question { program, argv, workdir, exec: Some(exec), judgement: &judgement };
        match (self.asker.ask(&question).await, leaving) {
            (Action::Allow, Some(leaving)) => leaving.result(exec, leaving.commands.leave(exec, Decided::Asked)),
            (Action::Allow, None) => Action::Run,
            // Its streams may have changed while a person was asked: the supervisor compares them.
            (Action::Escalate, Some(leaving)) => leaving.result(exec, leaving.commands.consequence(exec).map(|_| ())),
            (action, _) => action,
        }
    }
}

impl Leaving {
    fn result(&self, exec: &Exec, leaves: Result<(), String>) -> Action {
        match leaves {
            Ok(()) => Action::Escalate,
            Err(why) => {
                self.note(exec, why);
                Action::Run
            }
        }
    }

    /// One sentence for each program and reason: `make` may start it a thousand times.
    fn note(&self, exec: &Exec, why: String) {
        let name = exec.argv.first().cloned().unwrap_or_default();
        // Each change is one insertion.
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() < MAX_NOTES && noted.insert((name, why.clone())) {
            let command = escaped_lines(&command_of(exec)).replace('\n', "\\n");
            let shown: String = command.chars().take(MAX_COMMAND).collect();
            let more = if shown.len() < command.len() { "…" } else { "" };
            (self.note)(format!("`{shown}{more}` stayed in the sandbox: {why}"));
        }
    }
}

#[async_trait]
impl EscalationPolicy for AskingPolicy {
    async fn determine_action(&self, program: &str, argv: &[String], workdir: &Path) -> Action {
        let judgement = self.judge(program, argv);
        match judgement.decision {
            None | Some(Decision::Allow) => Action::Run,
            Some(Decision::Prompt) => {
                self.asker.ask(&Question { program, argv, workdir, exec: None, judgement: &judgement }).await
            }
            Some(Decision::Forbidden) => Action::Deny { reason: judgement.to_string() },
        }
    }

    async fn determine_exec(&self, exec: &Exec) -> Action {
        let judgement = self.rules.judge_exec(exec);
        match judgement.decision {
            None | Some(Decision::Allow) => self.unasked(exec),
            Some(Decision::Prompt) => self.ask_about(exec, judgement).await,
            Some(Decision::Forbidden) => Action::Deny { reason: judgement.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Answers as the test says, and records the questions.
    struct ScriptedAsker(Action, Mutex<Vec<String>>);

    #[async_trait]
    impl Asker for ScriptedAsker {
        async fn ask(&self, question: &Question<'_>) -> Action {
            self.1.lock().unwrap().push(question.judgement.to_string());
            match &self.0 {
                Action::Run => question.accepted(),
                other => other.clone(),
            }
        }
    }

    async fn decide(answer: Action, line: &str) -> (Action, usize) {
        let rules = "prefix_rule(['ls'])\nprefix_rule(['git', 'push'], decision='prompt')\nprefix_rule(['rm'], decision='forbidden', justification='use trash')";
        let asker = Arc::new(ScriptedAsker(answer, Mutex::default()));
        let policy = AskingPolicy::new(Arc::new(Rules::parse("test.rules", rules).unwrap()), asker.clone());
        let argv = ["bash", "-lc", line].map(str::to_owned);
        let action = policy.determine_action("/bin/bash", &argv, Path::new("/tmp")).await;
        let asked = asker.1.lock().unwrap().len();
        (action, asked)
    }

    #[tokio::test]
    async fn of_the_callers_own_shell_only_the_line_is_judged() {
        let asker = Arc::new(ScriptedAsker(Action::Run, Mutex::default()));
        let rules = "prefix_rule([['ls', 'git']])\nprefix_rule(['rm'], decision='forbidden')\nprefix_rule(['bash'])";
        let policy =
            AskingPolicy::new(Arc::new(Rules::parse("test.rules", rules).unwrap()), asker).for_lines_of("bash");
        for (program, argv, is_denied) in [
            ("bash", ["bash", "-c", "rm /"], true),
            ("bash", ["bash", "-lc", "make; rm /"], true),
            ("bash", ["bash", "-c", "ls"], false),
            ("bash", ["bash", "-c", "git status"], false),
            ("bash", ["bash", "-x", "rm"], false),
        ] {
            let argv = argv.map(str::to_owned);
            let action = policy.determine_action(program, &argv, Path::new("/")).await;
            assert_eq!(action != Action::Run, is_denied, "{program} {argv:?}: {action:?}");
        }
    }

    fn exec(program: &str, file: &str, argv: &[&str]) -> Exec {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        let (program, file, workdir) = (program.to_owned(), file.into(), "/work".into());
        Exec { program, file, argv, workdir, is_complete: true, ..Exec::default() }
    }

    #[tokio::test]
    async fn a_program_is_judged_by_each_of_its_names() {
        let rules = "prefix_rule(['ls'])\nprefix_rule(['git', 'push'], decision='prompt')\nprefix_rule(['rm'], decision='forbidden', justification='use trash')";
        let rules = Arc::new(Rules::parse("test.rules", rules).unwrap());
        let restricted = rules.restricted_programs();
        for name in ["git", "rm", "git-push", "git-send-pack", "busybox", "sudo"] {
            assert!(restricted.iter().any(|known| known == name), "{name}: {restricted:?}");
        }
        assert!(!restricted.contains(&"ls".to_owned()) && Rules::default().restricted_programs().is_empty());
        let asker = Arc::new(ScriptedAsker(Action::Run, Mutex::default()));
        let policy = AskingPolicy::new(rules, asker.clone());
        let script = |interpreter: &[&str]| Exec {
            interpreter: interpreter.iter().map(|word| (*word).to_owned()).collect(),
            ..exec("./x", "/work/x", &["./x", "push"])
        };
        for (exec, forbidden) in [
            (exec("/usr/bin/rm", "/usr/bin/rm", &["rm", "x"]), true),
            (exec("./link", "/usr/bin/rm", &["link"]), true),
            (exec("/bin/busybox", "/bin/busybox", &["rm", "x"]), true),
            (exec("/bin/busybox", "/bin/busybox", &["busybox", "rm", "x"]), true),
            (exec("/bin/busybox", "/bin/busybox", &["busybox", "ls"]), false),
            (exec("/bin/busybox", "/bin/busybox", &[]), false),
            (script(&["/bin/rm", "-f"]), true),
            (script(&["/bin/sh"]), false),
            (exec("bash", "/bin/bash", &["bash", "-c", "rm x"]), false),
            (exec("ls", "/bin/ls", &["ls"]), false),
        ] {
            match policy.determine_exec(&exec).await {
                Action::Deny { reason } => assert!(forbidden && reason.contains("use trash"), "{exec:?}: {reason}"),
                action => assert!(!forbidden && action == Action::Run, "{exec:?}: {action:?}"),
            }
        }
        assert_eq!(asker.1.lock().unwrap().len(), 0);
        let push = exec("/usr/bin/git", "/usr/bin/git", &["git", "push"]);
        assert_eq!(policy.determine_exec(&push).await, Action::Escalate);
        let asked = asker.1.lock().unwrap();
        assert!(asked.len() == 1 && asked[0].contains("git push"), "{asked:?}");
    }

    #[tokio::test]
    async fn an_objection_is_asked_about_for_what_runs_inside_the_sandbox() {
        for (line, asked) in [("ls", 1), ("make", 1), ("git status", 1), ("rm x", 0)] {
            let rules = "prefix_rule([['ls', 'git']])\nprefix_rule(['rm'], decision='forbidden')";
            let asker = Arc::new(ScriptedAsker(Action::Run, Mutex::default()));
            let policy = AskingPolicy::new(Arc::new(Rules::parse("test.rules", rules).unwrap()), asker.clone());
            let policy = policy.for_lines_of("bash").with_objection(Some("elsewhere".to_owned()));
            let argv = ["bash", "-c", line].map(str::to_owned);
            let action = policy.determine_action("bash", &argv, Path::new("/")).await;
            assert_eq!(asker.1.lock().unwrap().len(), asked, "{line}");
            assert_eq!(action == Action::Run, asked == 1, "{line}: {action:?}");
        }
    }

    #[tokio::test]
    async fn a_doubt_is_asked_about_only_where_execution_does_not_show_what_runs() {
        let rm = "prefix_rule(['rm'], decision='forbidden')";
        let cd = "prefix_rule(['cd'], decision='forbidden')";
        for (rules, line, asked) in [
            (rm, "$x y", 0),
            (rm, "eval \"$x\"", 0),
            (rm, "curl x | sh", 0),
            (rm, "tmux new \"$x\"", 1),
            (rm, "$x; ssh -o \"$y\" host", 1),
            (cd, "$x y", 1),
            (rm, "rm x; $y", 0),
        ] {
            let asker = Arc::new(ScriptedAsker(Action::Run, Mutex::default()));
            let policy = AskingPolicy::new(Arc::new(Rules::parse("test.rules", rules).unwrap()), asker.clone());
            let policy = policy.for_lines_of("bash").with_judged_programs(true);
            let argv = ["bash", "-c", line].map(str::to_owned);
            let action = policy.determine_action("bash", &argv, Path::new("/")).await;
            assert_eq!(asker.1.lock().unwrap().len(), asked, "{line}");
            assert_eq!(action == Action::Run, !line.starts_with("rm"), "{line}: {action:?}");
        }
    }

    #[tokio::test]
    async fn only_what_a_rule_or_a_doubt_leaves_open_is_asked() {
        let deny = |reason: &str| Action::Deny { reason: reason.to_owned() };
        let no = deny("the person said no");
        // The shell itself has no rule, so what it is given runs in the sandbox at most.
        assert_eq!(decide(no.clone(), "ls").await, (Action::Run, 0));
        assert_eq!(decide(no.clone(), "make").await, (Action::Run, 0));
        assert_eq!(decide(no.clone(), "git push").await, (no.clone(), 1));
        assert_eq!(decide(Action::Run, "git push").await, (Action::Escalate, 1));
        assert_eq!(decide(Action::Run, "$x y").await, (Action::Run, 1));
        let (action, asked) = decide(Action::Run, "git push; rm x").await;
        assert_eq!(asked, 0);
        assert!(
            matches!(&action, Action::Deny { reason } if reason.contains("rm x") && reason.contains("use trash")),
            "{action:?}"
        );
    }
}
