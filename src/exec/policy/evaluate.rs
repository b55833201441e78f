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

/// A command of a line that may run outside the sandbox, if its words are all known.
#[derive(Debug)]
pub(super) struct LineCommand {
    pub(super) words: Vec<String>,
    pub(super) decided: Decided,
    /// Why it stays in the sandbox unless a person has approved the line.
    pub(super) stays: Option<&'static str>,
}

/// What the strictest rule says about a program that may run outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decided {
    Allowed,
    /// A person is asked.
    Asked,
}

/// The judgement of the rules about a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// The strictest decision on any command in the line. `None`: no rule decides.
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
    /// What a person should know before a yes.
    pub consequence: Option<String>,
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
    /// in turn are judged later, so the line of a shell is not read.
    pub fn judge_exec(&self, exec: &Exec) -> Judgement {
        let words = |command: Vec<String>| command.into_iter().map(Word::Text).collect::<Vec<_>>();
        let mut commands: Vec<_> = exec.commands().into_iter().map(words).collect();
        if !exec.is_complete {
            // Otherwise a long argument would hide those that follow.
            commands.iter_mut().for_each(|words| words.push(Word::Many("…".to_owned())));
        }
        let inner: Vec<_> = commands.iter().flat_map(|words| shell::inner_commands(words)).collect();
        commands.extend(inner);
        self.decide(Line { commands, ..Line::default() })
    }

    /// The commands of a line whose words are all known and that a rule allows or asks about; and the names by which the line may call
    /// programs that a rule allows.
    pub(super) fn line_commands(&self, command_line: &str) -> (Vec<LineCommand>, BTreeSet<String>) {
        let line = shell::read(command_line);
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        let parts: BTreeSet<_> = command_line.split(|c| !is_name(c)).collect();
        let is_of_concern = |head: &&String| !shell::is_builtin(head) && !settings::is_program(head);
        let allowed = self.rules.iter().filter(|rule| rule.decision == Decision::Allow);
        let heads: BTreeSet<_> = allowed.flat_map(|rule| &rule.pattern[0]).filter(is_of_concern).cloned().collect();
        let is_head = |name: &str| heads.iter().any(|head| file_name(head) == file_name(name));
        let first = line.commands.iter().filter_map(|words| words.first()?.text()).filter(|name| is_head(name));
        let mut names: BTreeSet<_> = first.map(str::to_owned).collect();
        names.extend(heads.iter().filter(|head| parts.contains(file_name(head))).cloned());
        let command = |words: &Vec<Word>| {
            let stays = if settings::run_programs(words) {
                Some("it runs programs that its settings name, and commands can change those")
            } else if line.is_loose {
                Some("the line is more than commands joined by `&&`, `||`, `;`, `|` and `&`")
            } else {
                None
            };
            let known: Option<_> = words.iter().map(|word| word.text().map(str::to_owned)).collect();
            // What `sudo` runs is judged with it.
            let inner = shell::inner_commands(words);
            let fits = |rule: &&Rule, words: &[Word]| rule.fit(words, &self.executables) != Fit::No;
            let is_inner =
                |rule: &&Rule| rule.decision > Decision::Allow && inner.iter().any(|words| fits(rule, words));
            let decisions = self.rules.iter().filter(|rule| fits(rule, words) || is_inner(rule));
            let decided = match decisions.map(|rule| rule.decision).max()? {
                Decision::Allow => Decided::Allowed,
                Decision::Prompt => Decided::Asked,
                Decision::Forbidden => return None,
            };
            Some(LineCommand { words: known?, decided, stays })
        };
        (line.own.iter().filter_map(|at| command(&line.commands[*at])).collect(), names)
    }

    /// Whether a rule allows a program with these arguments, in any directory.
    pub(super) fn allow_somewhere(&self, argv: &[String]) -> bool {
        let Some((name, others)) = argv.split_first() else { return false };
        let allows = |rule: &Rule| {
            let mut heads = rule.pattern[0].iter().filter(|head| file_name(head) == file_name(name));
            heads.any(|head| {
                let words: Vec<_> = [head].into_iter().chain(others).cloned().map(Word::Text).collect();
                rule.fit(&words, &self.executables) == Fit::Yes
            })
        };
        self.rules.iter().filter(|rule| rule.decision == Decision::Allow).any(allows)
    }

    /// Whether a rule allows a program.
    pub(crate) fn allow_any(&self) -> bool {
        self.rules.iter().any(|rule| rule.decision == Decision::Allow)
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The file names of the programs that a rule asks about or forbids, of those that can be one of these by another name, and of those that run
    /// others with more privileges, sorted. A program with another name needs no judgement.
    pub fn restricted_programs(&self) -> Vec<String> {
        let mut names: BTreeSet<_> = self.restricted().map(str::to_owned).collect();
        let rules = self.rules.iter().filter(|rule| rule.decision > Decision::Allow);
        names.extend(rules.flat_map(|rule| shell::other_names(&rule.pattern)));
        if !names.is_empty() {
            names.extend(shell::PRIVILEGED.into_iter().map(str::to_owned));
        }
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
        let is_unseen = self.restricted().any(shell::is_builtin) || unseen::delegates(&line);
        let may_break = self.rules.iter().any(|rule| rule.decision > Decision::Allow);
        let mut judgement = Judgement { commands, is_unseen, ..Judgement::default() };
        let mut doubts = line.doubts;
        let mut strictest: Option<(Decision, &Rule, usize)> = None;
        for (i, words) in line.commands.iter().enumerate() {
            let mut decided: Option<(Decision, &Rule)> = None;
            let is_known = words.iter().all(|word| word.text().is_some());
            for rule in &self.rules {
                match rule.fit(words, &self.executables) {
                    // An unknown word may be an option.
                    Fit::Yes if rule.decision == Decision::Allow && !is_known => {}
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
            if let Some((decision, rule)) = decided
                && strictest.is_none_or(|(before, ..)| decision > before)
            {
                strictest = Some((decision, rule, i));
            }
        }
        judgement.uncertain = doubts.into_iter().next();
        let open = judgement.uncertain.is_some();
        match strictest {
            Some((Decision::Allow, ..)) if open => {}
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
