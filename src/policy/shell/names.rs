//! What variables mean to the commands after them, and what builtins do to variables and to the shell itself.
use super::{Line, Word};

/// Variables that change which programs run, or how the line is read.
const POWERFUL: [&str; 12] = [
    "PATH",
    "IFS",
    "ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS4",
    "EXECIGNORE",
    "POSIXLY_CORRECT",
    "GLOBIGNORE",
];
/// Variables by which programs change their looks at most.
const HARMLESS: [&str; 15] = [
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "CI",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "DEBIAN_FRONTEND",
    "SECONDS",
];
/// What `shopt` may set without a doubt: how names of files match, and when a line ends early.
const MILD_OPTIONS: [&str; 7] =
    ["globstar", "nullglob", "dotglob", "failglob", "nocaseglob", "inherit_errexit", "lastpipe"];
const MILD_SET_OPTIONS: [&str; 8] =
    ["pipefail", "errexit", "nounset", "xtrace", "noglob", "verbose", "noclobber", "noexec"];

/// Whether it changes which programs run, or how the line is read.
pub(super) fn is_powerful(name: &str) -> bool {
    POWERFUL.contains(&name) || ["LD_", "DYLD_", "BASH_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Names in small letters are the line's own, but for those of proxies.
fn harmless(name: &str) -> bool {
    let small = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    HARMLESS.contains(&name) || name.starts_with("LC_") || (small && !name.ends_with("_proxy"))
}

/// Notes that the variable is set.
pub(super) fn set(name: &str, line: &mut Line) {
    if is_powerful(name) {
        line.doubt(format!("it sets {name}, which changes what the commands after it are"));
    } else if !harmless(name) {
        line.beyond_allow = true;
    }
}

/// The name in `NAME=…`, `NAME+=…`, `NAME[…]=…` or `NAME`.
pub(super) fn name_of(word: &str) -> &str {
    word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(word, |end| &word[..end])
}

/// `NAME=value` as `env` takes it.
pub(super) fn is_assignment(word: &str) -> bool {
    word.contains('=')
}

/// Whether `set -o NAME` leaves the meaning of what follows as it is.
pub(super) fn is_mild_set_option(name: &str) -> bool {
    MILD_SET_OPTIONS.contains(&name)
}

/// What the builtin does, beyond running, that later commands depend on.
pub(super) fn builtin(name: &str, args: &[Word], line: &mut Line) {
    let unknown = args.iter().any(|arg| arg.text().is_none());
    let texts = || args.iter().filter_map(Word::text);
    match name {
        "export" | "declare" | "typeset" | "local" | "readonly" | "unset" | "read" | "mapfile" | "readarray"
        | "getopts" | "let" | "wait" => {
            if unknown {
                line.doubt(format!("which variables `{name}` changes is not known"));
            }
            texts().filter(|text| !text.starts_with('-')).for_each(|text| set(name_of(text), line));
            let by_reference = |text: &str| text.starts_with('-') && text.contains(['n', 'i', 'f', 'F', 'C', 'c', 'p']);
            if name != "wait"
                && texts().any(|text| text.contains('[') || by_reference(text))
                && !mild_declaration(name, args)
            {
                line.evaluates = true;
            }
            line.assigned |= !matches!(name, "export" | "unset" | "wait");
            line.evaluates |= name == "let";
            if matches!(name, "mapfile" | "readarray")
                && texts().any(|text| text.starts_with('-') && text.contains('C'))
            {
                line.doubt("`mapfile -C` runs a command that is not read");
            }
        }
        "printf" if args.first().is_some_and(|arg| arg.text().is_none_or(|text| text.starts_with("-v"))) => {
            match args.first().and_then(Word::text).map(|option| &option[2..]) {
                Some("") => match args.get(1).and_then(Word::text) {
                    Some(variable) => set(name_of(variable), line),
                    None => line.doubt("which variable `printf` sets is not known"),
                },
                Some(variable) => set(name_of(variable), line),
                None => line.doubt("whether `printf` sets a variable is not known"),
            }
            line.assigned = true;
            line.evaluates |= unknown || texts().any(|text| text.contains('['));
        }
        "test" if texts().any(|text| matches!(text, "-v" | "-R")) => {
            line.evaluates |= unknown || texts().any(|text| text.contains('['));
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

/// `declare -a x`, `read -r x`, `unset -v x`: nothing is evaluated.
fn mild_declaration(name: &str, args: &[Word]) -> bool {
    let mild = match name {
        "read" => "rsd",
        "unset" => "vf",
        "declare" | "typeset" | "local" | "readonly" | "export" => "aAgrxlupf",
        _ => return false,
    };
    let texts = || args.iter().filter_map(Word::text);
    texts().all(|text| !text.contains('['))
        && texts().filter(|text| text.starts_with('-')).all(|text| text[1..].chars().all(|c| mild.contains(c)))
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
                if !flags.chars().all(|c| "aebfhmnuvxBCETo".contains(c)) {
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
