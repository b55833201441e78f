//! Commands that run other commands: which, and with which words.
use super::{
    Line, Word, builtins,
    names::{self, Value},
    options::Options,
    programs::{HARMLESS_COMMANDS, HARMLESS_SSH, HARMLESS_TMUX, NOT_FOLLOWED, OTHER_SHELLS, SHELLS, WRAPPERS, Wrapper},
    token::is_reserved,
};
use crate::exec::policy::rule::file_name;

/// The commands that a command runs in turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// These commands.
    Commands(Vec<Vec<Word>>),
    /// Those in this text, read as a line.
    Script(String),
    /// Those in the second text, read by the shell that the first one names.
    ScriptFor(String, String),
}

/// Finds the commands that the command runs in turn. Where its words do not tell, the line gets a doubt.
pub(super) fn inner(words: &[Word], line: &mut Line) -> Option<Inner> {
    let Some(program) = words.first()?.text() else {
        line.doubt(format!("which program `{}` is, is not known before it runs", super::show(words)));
        return None;
    };
    let name = file_name(program);
    builtins::run(name, &words[1..], line);
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
        return unwrap(wrapper, words, line);
    }
    match name {
        "xargs" => xargs(words, line),
        "find" => find(words, line),
        "eval" => eval(words, line),
        "trap" => trap(words, line),
        "pausewatch" => ours(words, line),
        "ssh" | "scp" | "sftp" => ssh(words, line),
        "tmux" => tmux(words, line),
        _ if SHELLS.contains(&name) => shell(words, line),
        _ if OTHER_SHELLS.contains(&name)
            || NOT_FOLLOWED.contains(&name)
            || name.starts_with("ld-")
            || name.starts_with("ld.") =>
        {
            // Alone, many of them run a shell.
            not_followed_shell(words, line)
        }
        _ => None,
    }
}

fn not_followed(words: &[Word], line: &mut Line) -> Option<Inner> {
    if words.len() > 1 {
        line.doubt(format!("what `{}` runs is not known", super::show(words)));
    }
    None
}

fn commands(words: &[Word]) -> Option<Inner> {
    (!words.is_empty()).then(|| Inner::Commands(vec![words.to_vec()]))
}

fn unwrap(wrapper: &Wrapper, words: &[Word], line: &mut Line) -> Option<Inner> {
    let Some((mut at, found)) = wrapper.options.skip(words, 1) else { return not_followed(words, line) };
    if wrapper.name == "command" && found.iter().any(|(option, _)| option == "v" || option == "V") {
        return None;
    }
    if wrapper.name == "env" && words.get(at) == Some(&Word::Text("-".to_owned())) {
        at += 1;
    }
    for _ in 0..wrapper.operands {
        match words.get(at) {
            Some(Word::Many(_)) => return not_followed(words, line),
            Some(_) => at += 1,
            None => return None,
        }
    }
    while wrapper.assignments
        && let Some(text) = words.get(at).and_then(Word::text)
        && names::is_assignment(text)
    {
        names::pass(names::name_of(text), names::value_of(text), line);
        at += 1;
    }
    // Programs do not agree on whether `./a=b` is an assignment.
    if wrapper.assignments && words.get(at).is_some_and(|word| word.text().is_none_or(|text| text.contains('='))) {
        return not_followed(words, line);
    }
    // Behind them begins any command of bash, of which the grammar has made words.
    let begins_command = matches!(wrapper.name, "time" | "!");
    if begins_command && words.get(at).and_then(Word::text).is_some_and(|word| word != "!" && is_reserved(word)) {
        return not_followed(words, line);
    }
    commands(&words[at.min(words.len())..])
}

fn xargs(words: &[Word], line: &mut Line) -> Option<Inner> {
    let options = Options {
        flags: "0rtpxo",
        values: "adEILnPs",
        long_flags: &["null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty"],
        long_values: &["arg-file", "delimiter", "max-args", "max-procs", "max-chars", "process-slot-var"],
    };
    let Some((at, found)) = options.skip(words, 1) else { return not_followed(words, line) };
    for (_, variable) in found.iter().filter(|(option, _)| option == "process-slot-var") {
        match variable {
            Some(variable) => names::pass(variable, Value::Unknown, line),
            None => return not_followed(words, line),
        }
    }
    let mut inner = words[at..].to_vec();
    if inner.is_empty() {
        return None;
    }
    // The last of these decides whether words are appended.
    let replaces = found.iter().rev().find(|(option, _)| matches!(&**option, "I" | "n" | "L" | "max-args"));
    if replaces.is_none_or(|(option, _)| option != "I") {
        inner.push(Word::Many("…".to_owned()));
    }
    match found.iter().rev().find(|(option, _)| option == "I") {
        Some((_, Some(mark))) if !mark.is_empty() => replace(&mut inner, mark),
        Some(_) => return not_followed(words, line),
        None => {}
    }
    Some(Inner::Commands(vec![inner]))
}

/// Makes words that have `mark` in them unknown.
fn replace(words: &mut [Word], mark: &str) {
    for word in words {
        if let Word::Text(text) = word
            && text.contains(mark)
        {
            *word = Word::One(text.clone());
        }
    }
}

fn is_exec(option: &str) -> bool {
    matches!(option, "-exec" | "-execdir" | "-ok" | "-okdir")
}

fn find(words: &[Word], line: &mut Line) -> Option<Inner> {
    let mut found = Vec::new();
    let mut args = words[1..].iter().peekable();
    let (mut unknown, mut ends) = (false, false);
    while let Some(arg) = args.next() {
        match arg.text() {
            Some(option) if is_exec(option) => {
                let mut inner: Vec<Word> = Vec::new();
                loop {
                    match args.next() {
                        None => break,
                        Some(Word::Text(end)) if end == ";" => break,
                        Some(Word::Text(end)) if end == "+" && inner.last() == Some(&Word::Text("{}".to_owned())) => {
                            inner.pop();
                            inner.push(Word::Many("{}".to_owned()));
                            break;
                        }
                        Some(word) => inner.push(word.clone()),
                    }
                }
                // It may be where the command ends, and another begins.
                let list = Word::Many("{}".to_owned());
                let open = inner.iter().position(|word| word.text().is_none() && *word != list);
                let command_follows = |rest: &[Word]| rest.iter().filter_map(Word::text).any(is_exec);
                unknown |= open.is_some_and(|at| matches!(inner[at], Word::Many(_)) || command_follows(&inner[at..]));
                ends |= unknown;
                replace(&mut inner, "{}");
                found.push(inner);
            }
            Some(";" | "+") => ends = true,
            Some(_) => {}
            None => {
                unknown = true;
                ends |= matches!(arg, Word::Many(_));
            }
        }
    }
    if unknown && ends {
        line.doubt(format!("`{}` may run commands that are not known", super::show(words)));
    }
    found.retain(|words| !words.is_empty());
    (!found.is_empty()).then_some(Inner::Commands(found))
}

fn eval(words: &[Word], line: &mut Line) -> Option<Inner> {
    let texts: Option<Vec<_>> = words[1..].iter().map(Word::text).collect();
    match texts.as_deref() {
        Some(["--", rest @ ..] | rest) => Some(Inner::Script(rest.join(" "))),
        None => not_followed(words, line),
    }
}

fn trap(words: &[Word], line: &mut Line) -> Option<Inner> {
    let mut args = words[1..].iter();
    match args.find(|word| word.text() != Some("--")).map(Word::text) {
        None => None,
        Some(None) => not_followed(words, line),
        // Alone, it is a signal that gets its default again.
        Some(Some(_)) if args.len() == 0 => None,
        Some(Some("-" | "" | "-l" | "-p")) => None,
        Some(Some(action)) => Some(Inner::Script(action.to_owned())),
    }
}

/// `bash [-options] -c SCRIPT`, `bash FILE`, `bash` with its script on standard input.
fn shell(words: &[Word], line: &mut Line) -> Option<Inner> {
    let options = Options {
        flags: "cleuxvnfabhmpETBC",
        values: "o",
        long_flags: &["login", "norc", "noprofile", "noediting"],
        long_values: &[],
    };
    let Some((at, found)) = options.skip(words, 1) else { return not_followed_shell(words, line) };
    // The value of `o` is always the next word, and the rest of its own word are options.
    let attached =
        |text: &str| text.starts_with('-') && text[..text.len() - 1].contains('o') && !text.starts_with("--");
    if words[1..at].iter().filter_map(Word::text).any(attached) {
        return not_followed_shell(words, line);
    }
    let mild = |value: &Option<String>| value.as_deref().is_some_and(builtins::is_mild_set_option);
    if found.iter().any(|(option, value)| option == "o" && !mild(value)) {
        return not_followed_shell(words, line);
    }
    line.login |= found.iter().any(|(option, _)| matches!(&**option, "l" | "login"));
    let script = found.iter().any(|(option, _)| option == "c");
    // A lone `-` ends the options.
    let ended = words[..at].last().and_then(Word::text) == Some("--");
    let at = if !ended && words.get(at).and_then(Word::text) == Some("-") { at + 1 } else { at };
    match (script, words.get(at)) {
        // `+e` is an option as well, and those with more than one character are read again where they stand.
        (_, Some(Word::Text(text))) if text.starts_with(['+', '-']) => not_followed_shell(words, line),
        (true, Some(Word::Text(text))) => Some(Inner::ScriptFor(words[0].text()?.to_owned(), text.clone())),
        (false, Some(Word::Text(file))) if !is_open_file(file) => None,
        _ => not_followed_shell(words, line),
    }
}

/// Whether it may be what the shell has open already: its standard input, or another descriptor, by whatever way to it.
fn is_open_file(path: &str) -> bool {
    let name = file_name(path);
    path.split('/').any(|part| matches!(part, "dev" | "proc"))
        || matches!(name, "stdin" | "tty")
        || name.chars().all(|c| c.is_ascii_digit())
}

fn not_followed_shell(words: &[Word], line: &mut Line) -> Option<Inner> {
    let asks = |text: &str| matches!(text, "--version" | "--help" | "-V");
    if words.len() != 2 || !words[1].text().is_some_and(asks) {
        line.doubt(format!("what `{}` runs is not known", super::show(words)));
    }
    None
}

/// Commands on the other machine are not judged; on this one, options run commands.
fn ssh(words: &[Word], line: &mut Line) -> Option<Inner> {
    let options = match file_name(words[0].text()?) {
        "ssh" => Options::short("46AaCfGgKkMNnqsTtVvXxYy", "BbcDEeilLmOopQRW"),
        _ => Options::short("346ABCNOpqRrTv", "cilloP"),
    };
    let mut at = 1;
    // Behind the host there may be options again.
    for _ in 0..2 {
        let Some((end, found)) = options.skip(words, at) else { return not_followed(words, line) };
        let harmless = |value: &str| {
            let name = value.split(['=', ' ', '\t']).next().unwrap_or_default();
            HARMLESS_SSH.iter().any(|option| option.eq_ignore_ascii_case(name))
        };
        let set = |option: &str| option == "o";
        if found.iter().any(|(option, value)| set(option) && !value.as_deref().is_some_and(harmless)) {
            return not_followed(words, line);
        }
        at = end + 1;
    }
    None
}

/// Its commands may be many in one line, and may stand within its formats.
fn tmux(words: &[Word], line: &mut Line) -> Option<Inner> {
    let harmless = words.get(1).and_then(Word::text).is_none_or(|command| HARMLESS_TMUX.contains(&command));
    let plain = |word: &Word| word.text().is_some_and(|text| !text.contains(';') && !text.contains("#("));
    match harmless && words[1..].iter().all(plain) {
        true => None,
        false => not_followed(words, line),
    }
}

/// `pausewatch run DURATION COMMAND` and `pausewatch hold COMMAND`.
fn ours(words: &[Word], line: &mut Line) -> Option<Inner> {
    const RUN: &[&str] = &[
        "kill-after",
        "signal",
        "disconnect-grace",
        "thread-id",
        "address",
        "token",
        "tls-ca",
        "tls-cert",
        "tls-key",
        "config",
    ];
    let (options, operands) = match words.get(1).map(Word::text) {
        Some(Some("run")) => {
            let long_flags = &["foreground", "preserve-status", "verbose"];
            (Options { flags: "fpv", values: "ks", long_flags, long_values: RUN }, 1)
        }
        Some(Some("hold")) => {
            const HOLD: &[&str] = &[
                "reason",
                "holder",
                "ttl",
                "thread-id",
                "address",
                "token",
                "tls-ca",
                "tls-cert",
                "tls-key",
                "config",
            ];
            (Options { flags: "", values: "", long_flags: &["require"], long_values: HOLD }, 0)
        }
        Some(Some(command)) if HARMLESS_COMMANDS.contains(&command) => return None,
        _ => return not_followed(words, line),
    };
    let Some((at, _)) = options.skip(words, 2) else { return not_followed(words, line) };
    if words.get(at..at + operands).is_some_and(|operands| operands.iter().any(|word| matches!(word, Word::Many(_)))) {
        return not_followed(words, line);
    }
    let mut rest = words.get(at + operands..).unwrap_or_default();
    if rest.first() == Some(&Word::Text("--".to_owned())) {
        rest = &rest[1..];
    }
    commands(rest)
}
