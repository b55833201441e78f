//! Files of rules, in Starlark as Codex has them: `prefix_rule(…)` and `host_executable(…)`.
//!
//! A file is a program that calls these functions; it may compute lists and loop over them. The examples of a rule are
//! checked when it loads. `network_rule(…)` is parsed and reported as a warning, because the network is not filtered.
use super::{
    evaluate::Rules,
    rule::{Decision, Executables, Fit, Place, Rule, file_name},
    shell::Word,
};
use starlark::{
    environment::{GlobalsBuilder, Module},
    eval::Evaluator,
    starlark_module,
    syntax::{AstModule, Dialect},
    values::{Value, list::ListRef, list::UnpackList, none::NoneType},
};
use std::{cell::RefCell, fs, io::ErrorKind, path::Path};

/// Why a file of rules was refused.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", location(file, *line, *column))]
pub struct LoadError {
    /// The file as it was named.
    pub file: String,
    /// Counted from 1; 0 if the problem concerns the whole file.
    pub line: usize,
    /// Counted from 1; 0 if the problem concerns the whole file.
    pub column: usize,
    /// The problem, and how to fix it.
    pub message: String,
}

fn location(file: &str, line: usize, column: usize) -> String {
    match line {
        0 => format!("the rules file {file}"),
        _ => format!("{file}:{line}:{column}"),
    }
}

thread_local! {
    /// The statements so far of the file that this thread evaluates. (The evaluator would carry them, but only behind an unsafe trait.)
    static SAID: RefCell<Said> = RefCell::default();
}

/// The statements of a file.
#[derive(Debug, Default)]
struct Said {
    rules: Vec<Rule>,
    examples: Vec<Examples>,
    executables: Executables,
    warnings: Vec<String>,
}

/// The examples of a rule. They are checked after the whole file was read, because a `host_executable` may come later.
#[derive(Debug)]
struct Examples {
    rule: usize,
    fit: Vec<Vec<String>>,
    unfit: Vec<Vec<String>>,
}

impl Rules {
    /// Reads files of rules. The statements of all files apply together.
    ///
    /// # Errors
    /// A file cannot be read or is invalid; the error has the position. Then no rule is used.
    pub fn load<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self, LoadError> {
        let mut rules = Self::default();
        for path in paths {
            add_file(path.as_ref(), &mut rules)?;
        }
        Ok(rules)
    }

    /// Reads rules from a text; `name` stands for the file in messages.
    ///
    /// # Errors
    /// As [`Rules::load`].
    pub fn parse(name: &str, text: &str) -> Result<Self, LoadError> {
        let mut rules = Self::default();
        add_text(name, text, &mut rules)?;
        Ok(rules)
    }
}

fn add_file(path: &Path, rules: &mut Rules) -> Result<(), LoadError> {
    let name = path.display().to_string();
    let content = fs::read_to_string(path).map_err(|error| {
        let message = match error.kind() {
            ErrorKind::NotFound if path.is_relative() => {
                let directory = std::env::current_dir().unwrap_or_default();
                let directory = directory.display();
                format!("does not exist in {directory}; correct its name, or create it")
            }
            ErrorKind::NotFound => "does not exist; correct its name, or create it".to_owned(),
            ErrorKind::PermissionDenied => format!("cannot be read: {error}; let this user read it"),
            ErrorKind::IsADirectory => "is a directory; name a file in it".to_owned(),
            ErrorKind::InvalidData => "is not text in UTF-8; name a file of rules".to_owned(),
            _ => format!("cannot be read: {error}; name a file that can"),
        };
        LoadError { file: name.clone(), line: 0, column: 0, message }
    })?;
    add_text(&name, &content, rules)
}

fn add_text(name: &str, content: &str, rules: &mut Rules) -> Result<(), LoadError> {
    let said = evaluate(name, content).map_err(|error| {
        let at = error.span().map(|span| span.resolve_span().begin);
        LoadError {
            file: name.to_owned(),
            line: at.map_or(0, |at| at.line + 1),
            column: at.map_or(0, |at| at.column + 1),
            message: error.without_diagnostic().to_string().trim().to_owned(),
        }
    })?;
    for examples in &said.examples {
        try_out(&said.rules[examples.rule], examples, &said.executables)?;
    }
    rules.rules.extend(said.rules);
    for (name, paths) in said.executables {
        rules.executables.entry(name).or_default().extend(paths);
    }
    rules.warnings.extend(said.warnings);
    Ok(())
}

fn evaluate(name: &str, content: &str) -> Result<Said, starlark::Error> {
    let dialect = Dialect { enable_f_strings: true, ..Dialect::Extended };
    let ast = AstModule::parse(name, content.to_owned(), &dialect)?;
    let globals = GlobalsBuilder::standard().with(functions).build();
    SAID.take();
    Module::with_temp_heap(|module| Evaluator::new(&module).eval_module(ast, &globals).map(drop))?;
    Ok(SAID.take())
}

fn try_out(rule: &Rule, examples: &Examples, executables: &Executables) -> Result<(), LoadError> {
    let fits = |example: &Vec<String>| {
        let words: Vec<_> = example.iter().cloned().map(Word::Text).collect();
        rule.fit(&words, executables) == Fit::Yes
    };
    let refuse = |example: &Vec<String>, list: &str, does: &str| {
        let Place { file, line, column } = rule.place.clone();
        let example = super::shell::show(&example.iter().cloned().map(Word::Text).collect::<Vec<_>>());
        let message =
            format!("`{example}`, an example in `{list}`, {does} this rule; change the pattern or the example");
        Err(LoadError { file, line, column, message })
    };
    match (examples.fit.iter().find(|example| !fits(example)), examples.unfit.iter().find(|example| fits(example))) {
        (Some(example), _) => refuse(example, "match", "does not match"),
        (_, Some(example)) => refuse(example, "not_match", "matches"),
        _ => Ok(()),
    }
}

/// The error for a wrong argument, in the form of Starlark's own errors.
fn wrong(message: String) -> anyhow::Error {
    anyhow::Error::msg(message)
}

fn strings(list: &ListRef<'_>, what: &str) -> anyhow::Result<Vec<String>> {
    let text = |value: &Value<'_>| {
        let text = value.unpack_str().map(str::to_owned);
        text.ok_or_else(|| wrong(format!("{what} must be a list of strings, but contains: {}", value.get_type())))
    };
    let strings = list.iter().map(|value| text(&value)).collect::<anyhow::Result<Vec<_>>>()?;
    if strings.is_empty() { Err(wrong(format!("{what} is empty; name at least one word"))) } else { Ok(strings) }
}

fn pattern(items: UnpackList<Value<'_>>) -> anyhow::Result<Vec<Vec<String>>> {
    let element = |value: Value<'_>| match (value.unpack_str(), ListRef::from_value(value)) {
        (Some(text), _) => Ok(vec![text.to_owned()]),
        (None, Some(list)) => strings(list, "a pattern's list of alternatives"),
        (None, None) => Err(wrong(format!(
            "a pattern must be a list of strings and lists of alternatives, but contains: {}",
            value.get_type()
        ))),
    };
    let pattern = items.items.into_iter().map(element).collect::<anyhow::Result<Vec<_>>>()?;
    if pattern.is_empty() {
        return Err(wrong("the pattern is empty; name at least the program".to_owned()));
    }
    if pattern[0].iter().any(String::is_empty) {
        return Err(wrong("the program in the pattern is the empty string; name it".to_owned()));
    }
    if pattern.iter().flatten().any(String::is_empty) {
        let why = "a word in the pattern is the empty string; leave it out: a rule is about every command that begins with its words";
        return Err(wrong(why.to_owned()));
    }
    if let Some(word) = pattern.iter().flatten().find(|word| word.contains('\0')) {
        return Err(wrong(format!("{word:?} in the pattern has a NUL character, which no command has; remove it")));
    }
    // A program may be called `[`, but none is called by these.
    if let Some(head) = pattern[0].iter().find(|head| head.contains(['*', '?'])) {
        return Err(wrong(format!(
            "the program {head:?} in the pattern has a wildcard, which means nothing here; name each program"
        )));
    }
    // `.` alone is a builtin of shells.
    let is_directory = |head: &&String| matches!(head.rsplit('/').next(), Some("" | "..")) || head.ends_with("/.");
    if let Some(head) = pattern[0].iter().find(is_directory) {
        return Err(wrong(format!("{head:?} in the pattern is a directory; name the program")));
    }
    // No program that is called by its name has a blank in it: the rule would match no command.
    let is_blank = |head: &&String| !head.starts_with('/') && head.contains(char::is_whitespace);
    if let Some(head) = pattern[0].iter().find(is_blank) {
        let words: Vec<_> = head.split_whitespace().map(|word| format!("{word:?}")).collect();
        return Err(wrong(format!(
            "the program {head:?} in the pattern has a blank; write the words one by one: [{}]",
            words.join(", ")
        )));
    }
    Ok(pattern)
}

fn examples(items: Option<UnpackList<Value<'_>>>, what: &str) -> anyhow::Result<Vec<Vec<String>>> {
    let example = |value: Value<'_>| match (value.unpack_str(), ListRef::from_value(value)) {
        (Some(text), _) => match shlex::split(text) {
            Some(words) if !words.is_empty() => Ok(words),
            _ => {
                Err(wrong(format!("{text:?} in `{what}` is not a command; close its quotes, or write a list of words")))
            }
        },
        (None, Some(list)) => strings(list, &format!("an example in `{what}`")),
        (None, None) => Err(wrong(format!(
            "`{what}` must be a list of strings and lists of words, but contains: {}",
            value.get_type()
        ))),
    };
    items.map_or(Ok(Vec::new()), |items| items.items.into_iter().map(example).collect())
}

fn place(eval: &Evaluator<'_, '_, '_>) -> Place {
    let span = eval.call_stack_top_location().expect("a call has a place");
    let begin = span.resolve_span().begin;
    Place { file: span.filename().to_owned(), line: begin.line + 1, column: begin.column + 1 }
}

fn reason(text: Option<&str>) -> anyhow::Result<Option<String>> {
    match text {
        Some(text) if text.trim().is_empty() => {
            Err(wrong("the justification is empty; give a reason, or leave it out".to_owned()))
        }
        text => Ok(text.map(str::to_owned)),
    }
}

#[starlark_module]
fn functions(builder: &mut GlobalsBuilder) {
    fn prefix_rule<'v>(
        pattern: UnpackList<Value<'v>>,
        decision: Option<&'v str>,
        r#match: Option<UnpackList<Value<'v>>>,
        not_match: Option<UnpackList<Value<'v>>>,
        justification: Option<&'v str>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<NoneType> {
        let decision = match decision {
            None | Some("allow") => Decision::Allow,
            Some("prompt") => Decision::Prompt,
            Some("forbidden") => Decision::Forbidden,
            Some(other) => return Err(wrong(format!("decision is {other:?}; it can be allow, prompt or forbidden"))),
        };
        let rule = Rule {
            pattern: self::pattern(pattern)?,
            decision,
            justification: reason(justification)?,
            place: place(eval),
        };
        let (fit, unfit) = (examples(r#match, "match")?, examples(not_match, "not_match")?);
        SAID.with_borrow_mut(|said| {
            said.examples.push(Examples { rule: said.rules.len(), fit, unfit });
            said.rules.push(rule);
        });
        Ok(NoneType)
    }

    fn host_executable<'v>(name: &'v str, paths: UnpackList<Value<'v>>) -> anyhow::Result<NoneType> {
        if name.is_empty() || name.contains('/') {
            return Err(wrong(format!(
                "{name:?} is not the name of a program without a path; the paths go into `paths`"
            )));
        }
        let mut known = Vec::new();
        for value in paths.items {
            let path =
                value.unpack_str().ok_or_else(|| wrong(format!("a path is a string, not a {}", value.get_type())))?;
            if !path.starts_with('/') || file_name(path) != name {
                return Err(wrong(format!("{path:?} is not an absolute path that ends in /{name}")));
            }
            known.push(path.to_owned());
        }
        SAID.with_borrow_mut(|said| said.executables.entry(name.to_owned()).or_default().extend(known));
        Ok(NoneType)
    }

    fn network_rule<'v>(
        host: &'v str,
        #[allow(unused_variables)] protocol: &'v str,
        #[allow(unused_variables)] decision: &'v str,
        #[allow(unused_variables)] justification: Option<&'v str>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<NoneType> {
        let Place { file, line, column } = place(eval);
        let warning =
            format!("{file}:{line}:{column}: network_rule for {host} has no effect: nothing here filters the network");
        SAID.with_borrow_mut(|said| said.warnings.push(warning));
        Ok(NoneType)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> LoadError {
        Rules::parse("my.rules", text).expect_err(text)
    }

    #[test]
    fn a_file_may_compute_its_rules() {
        let rules = Rules::parse(
            "my.rules",
            "hosts = ['origin', 'upstream']\n\
             [prefix_rule(['git', 'push', host], decision = 'prompt', match = ['git push %s main' % host]) for host in hosts]\n\
             host_executable(name = 'ls', paths = ['/bin/ls'])\n\
             prefix_rule(pattern = ['ls'], match = [['ls'], '/bin/ls -l'], not_match = ['./ls', 'lsof'])\n",
        );
        let rules = rules.expect("they are right");
        assert_eq!(rules.rules.len(), 3);
        assert_eq!(rules.rules[1].to_string(), "git push upstream (my.rules:2)");
        assert_eq!(rules.rules[2].decision, Decision::Allow);
        let rules = Rules::parse("my.rules", "prefix_rule([['[', '/usr/bin/[', '...'], '*', '?', '/tmp/', '..'])");
        assert_eq!(rules.expect("they are right").rules.len(), 1);
    }

    #[test]
    fn errors_name_their_line_and_column() {
        for (text, line, column, says) in [
            ("prefix_rule(\n", 2, 1, "Parse error"),
            ("\nx = prefix_rule(pattern = [])", 2, 5, "pattern is empty"),
            ("prefix_rule(pattern = ['a', []])", 1, 1, "empty"),
            ("prefix_rule(pattern = [''])", 1, 1, "empty string"),
            ("prefix_rule(['rm', ''])", 1, 1, "leave it out"),
            ("prefix_rule(['git', ['push', '']])", 1, 1, "leave it out"),
            ("prefix_rule(['a\\0b'])", 1, 1, r#""a\0b" in the pattern has a NUL"#),
            ("prefix_rule(['a', 'b\\0'])", 1, 1, "has a NUL"),
            ("prefix_rule(['*'])", 1, 1, "wildcard"),
            ("prefix_rule([['ls', 'python?']])", 1, 1, "wildcard"),
            ("prefix_rule(['/usr/bin/'])", 1, 1, "is a directory"),
            ("prefix_rule(['..'])", 1, 1, "is a directory"),
            ("prefix_rule([['ls', 'git push']])", 1, 1, r#"one by one: ["git", "push"]"#),
            ("prefix_rule(pattern = ['a', 1])", 1, 1, "but contains: int"),
            ("prefix_rule(pattern = 'a')", 1, 1, "pattern"),
            ("prefix_rule(['a'], decision = 'deny')", 1, 1, "allow, prompt or forbidden"),
            ("prefix_rule(['a'], justification = ' ')", 1, 1, "give a reason"),
            ("x = 1\nprefix_rule(['a'], match = ['b c'])", 2, 1, "`b c`, an example in `match`, does not match"),
            ("prefix_rule(['a'], not_match = [['a', 'b c']])", 1, 1, "`a 'b c'`, an example in `not_match`, matches"),
            ("prefix_rule(['a'], match = ['a \"b'])", 1, 1, "close its quotes"),
            ("host_executable(name = 'git', paths = ['git'])", 1, 1, "absolute path"),
            ("host_executable(name = 'git', paths = ['/bin/gti'])", 1, 1, "absolute path"),
            ("host_executable(name = '/bin/git', paths = [])", 1, 1, "without a path"),
            ("prefix_rules(['a'])", 1, 1, "prefix_rules"),
            ("load('other.rules', 'x')", 1, 1, "load"),
        ] {
            let error = refused(text);
            assert_eq!((error.line, error.column), (line, column), "{text}: {error}");
            assert!(error.message.contains(says), "{text}: {error}");
            assert_eq!(error.file, "my.rules");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_with_the_reason_and_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let binary = directory.path().join("binary.rules");
        fs::write(&binary, [0xff, 0xfe]).unwrap();
        let here = std::env::current_dir().unwrap();
        for (file, problem) in [
            (Path::new("/nowhere/my.rules"), "does not exist; correct its name, or create it".to_owned()),
            (
                Path::new("not-here.rules"),
                format!("does not exist in {}; correct its name, or create it", here.display()),
            ),
            (directory.path(), "is a directory; name a file in it".to_owned()),
            (&binary, "is not text in UTF-8; name a file of rules".to_owned()),
        ] {
            let error = Rules::load([file]).expect_err("there is none");
            assert_eq!(error.to_string(), format!("the rules file {}: {problem}", file.display()));
        }
    }

    #[test]
    fn a_network_rule_is_reported_to_have_no_effect() {
        let rules =
            Rules::parse("my.rules", "network_rule(host = 'a.example', protocol = 'https', decision = 'allow')");
        assert!(
            rules.expect("it is right").warnings()[0]
                .starts_with("my.rules:1:1: network_rule for a.example has no effect")
        );
    }
}
