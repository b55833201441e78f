//! Effects of builtins that later commands depend on: on variables, and on the shell itself.
use super::{
    Line, Word,
    names::{self, Value},
    options::Options,
};

/// The options that `shopt` may set without a doubt: how names of files match, and when a line ends early.
const MILD_OPTIONS: [&str; 7] =
    ["globstar", "nullglob", "dotglob", "failglob", "nocaseglob", "inherit_errexit", "lastpipe"];
const MILD_SET_OPTIONS: [&str; 8] =
    ["pipefail", "errexit", "nounset", "xtrace", "noglob", "verbose", "noclobber", "noexec"];

/// Whether `set -o NAME` leaves the meaning of what follows as it is.
pub(super) fn is_mild_set_option(name: &str) -> bool {
    MILD_SET_OPTIONS.contains(&name)
}

/// Notes what the builtin does.
pub(super) fn run(name: &str, args: &[Word], line: &mut Line) {
    let unknown = args.iter().any(|arg| arg.text().is_none());
    let texts = || args.iter().filter_map(Word::text);
    match name {
        "export" | "declare" | "typeset" | "local" | "readonly" => declare(name, args, line),
        "unset" => unset(args, line),
        "let" => {
            line.evaluates = true;
            line.assigned = true;
        }
        "read" => read(args, line),
        "mapfile" | "readarray" => mapfile(args, line),
        "getopts" => getopts(args, line),
        "wait" => wait(args, line),
        "printf" => printf(args, line),
        "test" | "[" => test(args, line),
        "jobs" if args.iter().any(|arg| arg.text().is_none_or(|text| text.starts_with('-') && text.contains('x'))) => {
            line.doubt("what `jobs -x` runs is not known");
        }
        "alias" if unknown || texts().any(|text| text.contains('=')) => {
            line.doubt("an alias may give other meanings to the commands after it");
        }
        "shopt" if unknown || texts().any(|text| !text.starts_with('-') && !MILD_OPTIONS.contains(&text)) => {
            line.doubt("`shopt` may change how the rest is read");
        }
        "shopt" if texts().any(|text| text.starts_with('-') && text.contains('o')) => {
            line.doubt("`shopt -o` may change how the rest is read");
        }
        "set" => set_options(args, line),
        "enable" | "hash" | "bind" | "complete" | "compgen" | "fc" | "coproc" if !args.is_empty() => {
            line.doubt(format!("`{name}` may change which programs run"));
        }
        "." | "source" => line.doubt(format!("what `{name}` reads is not known")),
        _ => {}
    }
}

/// The variable that a builtin names gets a value from elsewhere.
fn fill(variable: &Word, line: &mut Line) {
    match variable.text() {
        Some(text) => {
            names::set(names::name_of(text), Value::Unknown, line);
            line.evaluates |= text.contains('[');
            line.assigned = true;
        }
        None => unknown_variable(line),
    }
}

fn unknown_variable(line: &mut Line) {
    line.doubt("which variable it sets is not known");
}

/// `declare -x NAME=value` and its like.
fn declare(name: &str, args: &[Word], line: &mut Line) {
    let texts = || args.iter().filter_map(Word::text);
    let options = || texts().filter(|text| text.starts_with(['-', '+']));
    if args.iter().any(|arg| arg.text().is_none()) {
        return line.doubt(format!("which variables `{name}` changes is not known"));
    }
    let passed = name == "export" || options().any(|option| option.contains('x'));
    let array = options().any(|option| option.contains(['a', 'A']));
    for text in texts().filter(|text| !text.starts_with('-')) {
        let (variable, value) = (names::name_of(text), names::value_of(text));
        match passed {
            true => names::pass(variable, value, line),
            false => names::set(variable, value, line),
        }
        if array {
            line.arrays.insert(variable.to_owned());
        }
        if matches!(value, Value::Text(value) if value.starts_with('(')) {
            line.lists.insert(variable.to_owned());
        }
    }
    // `-i` and `-n` have the values evaluated; options not known here may do so too.
    let mild = |option: &str| option[1..].chars().all(|c| "aAgrxlupf-".contains(c));
    line.evaluates |= texts().any(|text| text.contains('[')) || !options().all(mild);
    line.assigned |= name != "export";
}

fn unset(args: &[Word], line: &mut Line) {
    if args.iter().any(|arg| arg.text().is_none()) {
        return line.doubt("which variables `unset` changes is not known");
    }
    for text in args.iter().filter_map(Word::text) {
        match text.starts_with('-') {
            true => line.evaluates |= text.contains('n'),
            false => names::set(names::name_of(text), Value::Text(""), line),
        }
        line.evaluates |= text.contains('[');
    }
}

fn read(args: &[Word], line: &mut Line) {
    let Some((at, found)) = Options::short("ersE", "adinNptu").skip(args, 0) else { return unknown_variable(line) };
    for (_, value) in found.into_iter().filter(|(option, _)| option == "a") {
        fill_array(value, line);
    }
    args[at..].iter().for_each(|variable| fill(variable, line));
    line.assigned = true;
}

fn mapfile(args: &[Word], line: &mut Line) {
    let Some((at, found)) = Options::short("t", "dnOsuCc").skip(args, 0) else { return unknown_variable(line) };
    if found.iter().any(|(option, _)| option == "C") {
        line.doubt("`mapfile -C` runs a command that is not read");
    }
    match args.get(at) {
        Some(variable) => fill_array(variable.text().map(str::to_owned), line),
        None => line.assigned = true,
    }
}

fn fill_array(variable: Option<String>, line: &mut Line) {
    match variable {
        Some(variable) => {
            line.arrays.insert(names::name_of(&variable).to_owned());
            fill(&Word::Text(variable), line);
        }
        None => unknown_variable(line),
    }
}

/// `getopts OPTIONS NAME [ARGS]`.
fn getopts(args: &[Word], line: &mut Line) {
    let args = if args.first().and_then(Word::text) == Some("--") { &args[1..] } else { args };
    match args {
        [Word::Many(_), ..] => unknown_variable(line),
        [_, variable, ..] => fill(variable, line),
        _ => {}
    }
    line.assigned = true;
}

/// `wait -p NAME`.
fn wait(args: &[Word], line: &mut Line) {
    // `$!` is a number or nothing.
    let is_last_job = |source: &str| matches!(source, "$!" | "\"$!\"" | "${!}");
    let last_job = |arg: &Word| matches!(arg, Word::One(source) | Word::Many(source) if is_last_job(source));
    let args: Vec<_> = args.iter().filter(|arg| !last_job(arg)).cloned().collect();
    let Some((at, found)) = Options::short("fn", "p").skip(&args, 0) else { return unknown_variable(line) };
    for (_, variable) in found.into_iter().filter(|(option, _)| option == "p") {
        match variable {
            Some(variable) => fill(&Word::Text(variable), line),
            None => unknown_variable(line),
        }
    }
    if args[at..].iter().any(|arg| arg.text().is_none()) {
        unknown_variable(line);
    }
}

/// `printf -v NAME`.
fn printf(args: &[Word], line: &mut Line) {
    let mut rest = args;
    while let Some(option) = rest.first() {
        let Some(text) = option.text() else { return line.doubt("whether `printf` sets a variable is not known") };
        match text.strip_prefix("-v") {
            None => return,
            Some("") => {
                let Some(variable) = rest.get(1) else { return };
                fill(variable, line);
                rest = &rest[2..];
            }
            Some(variable) => {
                fill(&Word::Text(variable.to_owned()), line);
                rest = &rest[1..];
            }
        }
    }
}

/// `test -v NAME` evaluates the name's subscript, and a word that is not known may be `-v` and more.
fn test(args: &[Word], line: &mut Line) {
    let has_subscript = |word: &Word| word.text().is_none_or(|text| text.contains('['));
    let may_be_operator = |word: &Word| word.text().is_none_or(|text| matches!(text, "-v" | "-R"));
    line.evaluates |= args.windows(2).any(|pair| may_be_operator(&pair[0]) && has_subscript(&pair[1]));
    line.splits |= args.iter().any(|arg| matches!(arg, Word::Many(source) if !is_numeric(source)));
}

/// A parameter that the shell keeps, and that is a number.
pub(super) fn is_numeric(source: &str) -> bool {
    matches!(source, "$?" | "$#" | "$$" | "$!" | "${?}" | "${#}")
        || source.strip_prefix("${#").and_then(|rest| rest.strip_suffix('}')).is_some_and(|rest| {
            let subscript = &rest[names::name_of(rest).len()..];
            matches!(subscript, "" | "[@]" | "[*]")
        })
}

/// `set -e -o pipefail -- words`.
fn set_options(args: &[Word], line: &mut Line) {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.text() {
            Some("--" | "-") => {
                line.assigned |= args.next().is_some();
                return;
            }
            Some(text) if text.starts_with(['-', '+']) => {
                let flags = &text[1..];
                let takes_one = flags.matches('o').count() <= 1;
                if !takes_one || !flags.chars().all(|c| "aebfhmnuvxBCETo".contains(c)) {
                    return line.doubt("`set` may change how the rest is read");
                }
                if flags.contains('o') {
                    match args.next() {
                        Some(word) if word.text().is_some_and(is_mild_set_option) => {}
                        None => {}
                        Some(_) => return line.doubt("`set -o` may change how the rest is read"),
                    }
                }
                // Exported from here on: what programs heed.
                line.beyond_allow |= flags.contains('a');
            }
            Some(_) => {
                line.assigned = true;
                return;
            }
            None => return line.doubt("which options `set` changes is not known"),
        }
    }
}
