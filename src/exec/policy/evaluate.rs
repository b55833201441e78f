//! Judges a command line by the rules.
use super::{
    exec::Exec,
    rule::{Decision, Executables, Fit, Rule, file_name},
    settings,
    shell::{self, Line, Word},
    unseen,
};
use std::{collections::BTreeSet, fmt};

/// The rules of one or more files.
#[derive(Debug, Default)]
pub struct Rules {
    pub(super) rules: Vec<Rule>,
    pub(super) executables: Executables,
    pub(super) warnings: Vec<String>,
}

/// The judgement of the rules about a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// The strictest decision on any command in the line. `None`: no rule decides, and it runs inside the sandbox.
    pub decision: Option<Decision>,
    /// The rule that decided: its words, its file and line.
    pub rule: Option<String>,
    /// The reason that this rule gives.
    pub justification: Option<String>,
    /// Every simple command that was found in the line, in its order, each followed by those that it runs in turn (`sudo rm`, `rm`).
    pub commands: Vec<String>,
    /// The command that the rule is about.
    pub decided_by: Option<String>,
    /// Why the line could not be judged with certainty.
    pub uncertain: Option<String>,
    /// Why a person is asked, whatever the rules say.
    pub objection: Option<String>,
    /// A command in it may run programs that commands in the sandbox have named: if allowed, it runs without a question, but
    /// inside the sandbox.
    pub keeps_sandbox: bool,
    /// The doubt, if there is one, matters also where programs are judged as they are executed: what runs may be a builtin of the shell, or
    /// may run outside.
    pub is_unseen: bool,
}

impl Rules {
    /// The parts of the files that are valid and have no effect here.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Judges a line as a shell would run it with `-c`.
    pub fn judge(&self, command_line: &str) -> Judgement {
        self.decide(self.read(shell::read(command_line)))
    }

    /// Judges `program`, run with `argv` (its own name included); a shell's `-c` is read as a line.
    pub fn judge_argv(&self, program: &str, argv: &[String]) -> Judgement {
        let words = [program].into_iter().chain(argv.iter().skip(1).map(String::as_str));
        self.decide(self.read(shell::read_argv(words.map(|word| Word::Text(word.to_owned())).collect())))
    }

    /// Judges a program that a running command is about to execute, by each of its names. The programs that it executes
    /// in turn are judged later, so the line of a shell is not read. Never `allow`: see
    /// [`LineCommands`](super::LineCommands).
    pub fn judge_exec(&self, exec: &Exec) -> Judgement {
        let words = |command: Vec<String>| command.into_iter().map(Word::Text).collect::<Vec<_>>();
        let mut commands: Vec<_> = exec.commands().into_iter().map(words).collect();
        if !exec.is_complete {
            // Otherwise a long argument would hide those that follow.
            commands.iter_mut().for_each(|words| words.push(Word::Many("…".to_owned())));
        }
        let inner: Vec<_> = commands.iter().flat_map(|words| shell::inner_commands(words)).collect();
        commands.extend(inner);
        self.decide(Line { commands, beyond_allow: true, ..Line::default() })
    }

    /// The commands of a line whose words are all known, which a rule allows, and which do not run programs that
    /// the settings of a project name. Empty if the line cannot be judged with certainty.
    pub(super) fn allowed_commands(&self, command_line: &str) -> Vec<Vec<String>> {
        let line = self.read(shell::read(command_line));
        if !line.doubts.is_empty() {
            return Vec::new();
        }
        let known = |words: &[Word]| words.iter().map(|word| word.text().map(str::to_owned)).collect();
        let commands = line.commands.iter().filter(|words| !settings::run_programs(words));
        let allowed = commands.filter(|words| {
            let decisions = self.rules.iter().filter(|rule| rule.fit(words, &self.executables) != Fit::No);
            decisions.map(|rule| rule.decision).max() == Some(Decision::Allow)
        });
        allowed.filter_map(|words| known(words)).collect()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The file names of the programs that a rule asks about or forbids, and of those that can be one of these by another name, sorted. A
    /// program with another name needs no judgement.
    pub fn restricted_programs(&self) -> Vec<String> {
        let mut names: BTreeSet<_> = self.restricted().map(str::to_owned).collect();
        let rules = self.rules.iter().filter(|rule| rule.decision > Decision::Allow);
        names.extend(rules.flat_map(|rule| shell::other_names(&rule.pattern)));
        names.into_iter().collect()
    }

    /// Adds a doubt for each command that has the name of a restricted program among its words: it may run that
    /// program.
    fn read(&self, mut line: Line) -> Line {
        for words in &line.commands {
            let head = words.first().and_then(Word::text).unwrap_or_default();
            let mut names = words.iter().skip(1).filter_map(Word::text).map(file_name);
            let is_restricted = |name: &&str| self.restricted().any(|restricted| restricted == *name);
            if !shell::is_builtin(head)
                && let Some(name) = names.find(is_restricted)
            {
                line.doubts.push(format!("`{}` may run `{name}`", shell::show(words)));
            }
        }
        line
    }

    fn restricted(&self) -> impl Iterator<Item = &str> {
        let rules = self.rules.iter().filter(|rule| rule.decision > Decision::Allow);
        rules.flat_map(|rule| &rule.pattern[0]).map(|head| file_name(head))
    }

    fn decide(&self, line: Line) -> Judgement {
        let commands = line.commands.iter().map(|words| shell::show(words)).collect();
        let keeps_sandbox = line.commands.iter().any(|words| settings::run_programs(words));
        let is_unseen = self.restricted().any(shell::is_builtin) || unseen::delegates(&line);
        let may_break = self.rules.iter().any(|rule| rule.decision > Decision::Allow);
        let mut judgement = Judgement { commands, keeps_sandbox, is_unseen, ..Judgement::default() };
        let mut doubts = line.doubts;
        let mut strictest: Option<(Decision, &Rule, usize)> = None;
        let mut all_allowed = !line.commands.is_empty() && !line.beyond_allow;
        for (i, words) in line.commands.iter().enumerate() {
            let mut decided: Option<(Decision, &Rule)> = None;
            for rule in &self.rules {
                match rule.fit(words, &self.executables) {
                    Fit::Yes if decided.is_none_or(|(decision, _)| rule.decision > decision) => {
                        decided = Some((rule.decision, rule));
                    }
                    Fit::Maybe if rule.decision > Decision::Allow => {
                        doubts
                            .push(format!("`{}` may be `{rule}`: not all of its words are known", shell::show(words)));
                    }
                    Fit::Replaced => {
                        doubts.push(format!("`{}` may be `{rule}`: git may replace the command", shell::show(words)));
                    }
                    Fit::AfterOptions => {
                        doubts.push(format!("`{}` may be `{rule}`: its options come first", shell::show(words)));
                    }
                    _ => {}
                }
            }
            all_allowed &= decided.is_some();
            if let Some((decision, rule)) = decided
                && strictest.is_none_or(|(before, ..)| decision > before)
            {
                strictest = Some((decision, rule, i));
            }
        }
        judgement.uncertain = doubts.into_iter().next();
        let open = judgement.uncertain.is_some();
        match strictest {
            Some((Decision::Allow, ..)) if open || !all_allowed => {}
            None => {}
            Some((decision, rule, i)) => {
                judgement.decision = Some(decision);
                judgement.rule = Some(rule.to_string());
                judgement.justification.clone_from(&rule.justification);
                judgement.decided_by = Some(judgement.commands[i].clone());
            }
        }
        if open && may_break && judgement.decision.is_none() {
            judgement.decision = Some(Decision::Prompt);
        }
        judgement
    }
}

/// One sentence for a person: which command, which rule, and why.
impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.decision, &self.rule, &self.decided_by) {
            (Some(decision), Some(rule), Some(command)) => {
                let is = match decision {
                    Decision::Allow => "is allowed",
                    Decision::Prompt => "needs approval",
                    Decision::Forbidden => "is forbidden",
                };
                write!(f, "`{command}` {is} by the rule {rule}")?;
                self.justification.iter().try_for_each(|why| write!(f, ": {why}"))?;
                self.objection.iter().try_for_each(|why| write!(f, "; {why}"))
            }
            (Some(_), ..) => {
                let uncertain = self.uncertain.iter().map(|why| format!("this cannot be judged with certainty: {why}"));
                let reasons: Vec<_> = uncertain.chain(self.objection.clone()).collect();
                f.write_str(&reasons.join("; "))
            }
            (None, ..) => write!(f, "no rule decides; it runs inside the sandbox"),
        }
    }
}
