//! The text of a question to a person: what is to run, where, and which rule prompts.
use super::{
    Action, Exec, Lineage, Question, may_run_code,
    shown::{command_of, quoted},
};
use crate::escape::escaped_lines;
use std::{ffi::OsStr, fmt::Write, path::Path};

/// The maximum of environment variables in a question, besides those that make many programs run other code, which are
/// all shown.
const MAX_VARIABLES: usize = 12;

/// A question as the person reads it, and what the answers lead to.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    pub(crate) message: String,
    /// The action after a plain yes.
    accepted: Action,
    judgement: String,
}

impl Prompt {
    /// About a command that a call wants to run.
    pub(crate) fn about_command(question: &Question<'_>) -> Self {
        let line = match question.argv {
            [_, option, line] if option.starts_with('-') => line.as_str(),
            argv => &argv.join(" "),
        };
        Self::new(question, "Run this command?", line, "", "")
    }

    /// About a program that a running command is about to execute. `line`: the command's line.
    pub(crate) fn about_program(question: &Question<'_>, exec: &Exec, line: &str) -> Self {
        let text = command_of(exec);
        let by = match exec.lineage {
            Lineage::Line => "This command executes it:",
            Lineage::Nested(_) => "A program executes it in this command:",
            Lineage::Unknown => "A background program executes it in this command:",
        };
        let after = format!("\n\n{by}\n\n{}", indented(line));
        let with = called_as(exec) + &variables_of(exec);
        Self::new(question, "Run this program?", &text, &with, after.trim_end())
    }

    fn new(question: &Question<'_>, ask: &str, what: &str, with: &str, after: &str) -> Self {
        let judgement = question.judgement.to_string();
        // Lines that are not indented are ours: neither a directory nor a word of the command may make one.
        let (workdir, why) = (in_one_line(&question.workdir.display().to_string()), in_one_line(&judgement));
        let consequence = question.judgement.consequence.as_deref().map(in_one_line);
        let consequence = consequence.map(|consequence| format!("\n\n{consequence}")).unwrap_or_default();
        let message = format!("{ask}\n\n{}\nin {workdir}{with}\n\n{why}{after}{consequence}", indented(what));
        Self { message, accepted: question.accepted(), judgement }
    }

    /// The action after a plain yes.
    pub(crate) fn accept(&self) -> Action {
        self.accepted.clone()
    }

    /// The denial, for this reason.
    pub(crate) fn deny(&self, why: &str) -> Action {
        Action::Deny { reason: format!("{why}; {}", self.judgement) }
    }
}

/// The name that the program gets as `argv[0]`, if it differs from that of its path: some programs behave differently
/// because of it.
fn called_as(exec: &Exec) -> String {
    match exec.argv.first() {
        Some(name) if *name == exec.program || Path::new(&exec.program).file_name() == Some(OsStr::new(name)) => {
            String::new()
        }
        Some(name) => format!("\ncalled as {}", in_one_line(&quoted(name))),
        None if exec.is_complete => String::new(),
        None => "\ncalled by a name that is too long to be shown".to_owned(),
    }
}

/// The variables that may make the program behave differently than in the command's shell.
fn variables_of(exec: &Exec) -> String {
    let (mut names, others): (Vec<_>, Vec<_>) = exec.changed_env.iter().partition(|name| may_run_code(name));
    let shown = others.len().min(MAX_VARIABLES.saturating_sub(names.len()));
    names.extend(&others[..shown]);
    let more = others.len() - shown;
    let names = names.iter().map(|name| in_one_line(name)).collect::<Vec<_>>().join(", ");
    match (names.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!("\nwith changed environment variables: {names}"),
        (false, more) => format!("\nwith changed environment variables: {names}, and {more} more"),
    }
}

fn in_one_line(text: &str) -> String {
    escaped_lines(text).replace('\n', "\\n")
}

/// The text with nothing that a terminal or a client could show as something else, each line indented.
fn indented(text: &str) -> String {
    let mut indented = String::new();
    for line in escaped_lines(text).lines() {
        let _ = writeln!(indented, "    {line}");
    }
    indented
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::policy::Rules;
    use std::path::Path;

    #[test]
    fn the_question_has_the_exact_command_and_the_reason() {
        let rules = "prefix_rule(['git', 'push'], decision='prompt', justification='others see it')";
        let rules = Rules::parse("my.rules", rules).unwrap();
        let line = "git push # \u{202E}\x1b[2K\necho \u{200B}done";
        let judgement = rules.judge("git push");
        let argv = ["bash", "-c", line].map(str::to_owned);
        let workdir = Path::new("/work");
        let question = Question { program: "bash", argv: &argv, workdir, exec: None, judgement: &judgement };
        let text = Prompt::about_command(&question).message;
        let start = "Run this command?\n\n    git push # \\u{202e}\\u{1b}[2K\n    echo \\u{200b}done\n\nin /work\n\n";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("my.rules") && text.ends_with("others see it"), "{text}");
    }

    #[test]
    fn a_question_about_a_program_has_its_arguments_and_the_line_it_came_from() {
        let rules = Rules::parse("my.rules", "prefix_rule(['git', 'push'], decision='prompt')").unwrap();
        let argv = ["git", "push", "a b", "\x1b[2K"].map(str::to_owned);
        let exec: Exec = serde_json::from_value(serde_json::json!({
            "program": "/usr/bin/git", "file": "/usr/bin/git", "argv": argv, "is_complete": false, "workdir": "/work",
            "interpreter": [], "changed_env": ["LD_PRELOAD", "A\nB"], "lineage": {"Nested": 2}, "place": "Sandbox",
        }))
        .unwrap();
        let (workdir, judgement) = (Path::new("/work"), rules.judge_exec(&exec));
        let question =
            Question { program: &exec.program, argv: &exec.argv, workdir, exec: Some(&exec), judgement: &judgement };
        let text = Prompt::about_program(&question, &exec, "make release").message;
        let start = "Run this program?\n\n    /usr/bin/git push 'a b' '\\u{1b}[2K' …\n\nin /work\nwith changed environment variables: LD_PRELOAD, A\\nB\n\n\
             `/usr/bin/git push ";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("my.rules") && text.ends_with("in this command:\n\n    make release"), "{text}");
    }

    #[test]
    fn only_indented_lines_are_the_commands() {
        let rules = Rules::parse("my.rules", "prefix_rule(['git', 'push'], decision='prompt')").expect("valid");
        let line = "git push 'a`\n\nThis is harmless: `'";
        let (judgement, workdir) = (rules.judge(line), Path::new("/work\n\nwhich is harmless"));
        let argv = ["bash", "-c", line].map(str::to_owned);
        let question = Question { program: "bash", argv: &argv, workdir, exec: None, judgement: &judgement };
        let text = Prompt::about_command(&question).message;
        assert!(text.contains("\n    This is harmless: `'\n\nin /work\\n\\nwhich is harmless\n\n`git push "), "{text}");
        assert!(!text.contains("\nThis is harmless") && !text.contains("\nwhich is harmless"), "{text}");
    }

    fn question_about(exec: &Exec) -> String {
        let rules = Rules::parse("my.rules", "prefix_rule(['git'], decision='prompt')").expect("valid");
        let (workdir, judgement) = (Path::new("/work"), rules.judge_exec(exec));
        let question =
            Question { program: &exec.program, argv: &exec.argv, workdir, exec: Some(exec), judgement: &judgement };
        Prompt::about_program(&question, exec, "make").message
    }

    #[test]
    fn the_name_by_which_a_program_is_called_is_shown_if_it_is_not_that_of_its_path() {
        let called = |argv: &[&str], is_complete| {
            let argv = argv.iter().map(|&word| word.to_owned()).collect();
            question_about(&Exec { program: "/bin/git".to_owned(), argv, is_complete, ..Exec::default() })
        };
        for usual in [&["git"][..], &["/bin/git"], &[]] {
            assert!(!called(usual, true).contains("called"), "{usual:?}");
        }
        for (name, shown) in
            [("/venv/bin/git", "/venv/bin/git\n"), ("a\nb", "'a\\nb'\n"), ("", "''\n"), ("-git", "-git\n")]
        {
            let text = called(&[name, "push"], true);
            assert!(text.contains(&format!("\ncalled as {shown}")), "{text}");
        }
        let text = called(&[], false);
        assert!(text.contains("\ncalled by a name that is too long to be shown\n"), "{text}");
    }

    #[test]
    fn all_variables_by_which_programs_run_other_code_are_shown() {
        let names = (0..20).map(|number| format!("A{number:02}")).chain((0..64).map(|number| format!("GIT_A{number}")));
        let changed_env = names.chain(["LD_PRELOAD".to_owned()]).collect();
        let text = question_about(&Exec { program: "git".to_owned(), changed_env, ..Exec::default() });
        assert!(text.contains("GIT_A63, LD_PRELOAD, and 20 more\n"), "{text}");
        let changed_env = (0..20).map(|number| format!("A{number:02}")).chain(["ENV".to_owned()]).collect();
        let text = question_about(&Exec { program: "git".to_owned(), changed_env, ..Exec::default() });
        assert!(text.contains("variables: ENV, A00, A01") && text.contains("A10, and 9 more\n"), "{text}");
    }
}
