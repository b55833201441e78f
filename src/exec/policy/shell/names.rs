//! Effects of variables on the commands after them.
use super::Line;

/// Variables that change which programs run, or how the line is read.
const POWERFUL: [&str; 14] = [
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
    // bash expands what a translation of `$"…"` says.
    "TEXTDOMAIN",
    "TEXTDOMAINDIR",
];
/// Variables of bash that hold a number or a list in some version of it: it evaluates what they are given.
const EVALUATED: [&str; 31] = [
    "SECONDS",
    "RANDOM",
    "SRANDOM",
    "OPTIND",
    "OPTERR",
    "HISTCMD",
    "HISTSIZE",
    "HISTFILESIZE",
    "LINENO",
    "UID",
    "EUID",
    "PPID",
    "BASHPID",
    "EPOCHSECONDS",
    "EPOCHREALTIME",
    "FUNCNEST",
    "FUNCNAME",
    "SHLVL",
    "TMOUT",
    "MAILCHECK",
    "DIRSTACK",
    "GROUPS",
    "PIPESTATUS",
    "COPROC",
    "MAPFILE",
    "COMPREPLY",
    "COMP_CWORD",
    "COMP_POINT",
    "COMP_KEY",
    "COMP_TYPE",
    "COMP_WORDS",
];
/// Variables by which programs change their looks at most.
const HARMLESS: [&str; 14] = [
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
];

/// Stands for a value that was seen with its node in the tree.
pub(super) const READ_WITH_ITS_NODE: &str = "…";

/// The value that a variable gets.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    /// Exactly this; nothing, if there is no value.
    Text(&'a str),
    Unknown,
}

impl Value<'_> {
    fn is_number(self) -> bool {
        matches!(self, Self::Text(text) if text.chars().all(|c| c.is_ascii_digit()))
    }

    /// Whether it has only characters that every program takes for parts of a name.
    fn is_plain(self) -> bool {
        matches!(self, Self::Text(text) if text.chars().all(|c| c.is_ascii_alphanumeric() || "_-+.,:/=@".contains(c)))
    }

    /// Would run a command if it were evaluated.
    fn has_hidden_command(self) -> bool {
        matches!(self, Self::Text(text) if text.contains('[') && text.contains(['$', '`']))
    }
}

/// Whether it changes which programs run, or how the line is read.
pub(super) fn is_powerful(name: &str) -> bool {
    POWERFUL.contains(&name) || ["LD_", "DYLD_", "BASH_"].iter().any(|prefix| name.starts_with(prefix))
}

fn is_evaluated(name: &str) -> bool {
    EVALUATED.contains(&name) || name.starts_with("READLINE_")
}

/// Names in small letters are the line's own, but for those of proxies and of npm.
fn is_own(name: &str) -> bool {
    let small = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    small && !name.ends_with("_proxy") && !name.starts_with("npm_")
}

fn is_harmless(name: &str, value: Value<'_>) -> bool {
    match name {
        // debconf makes Perl of it.
        "DEBIAN_FRONTEND" => value.is_plain(),
        _ => HARMLESS.contains(&name) || name.starts_with("LC_"),
    }
}

/// Notes that a variable of the shell is set.
pub(super) fn set(name: &str, value: Value<'_>, line: &mut Line) {
    let evaluated = is_evaluated(name);
    let known = is_own(name) || is_harmless(name, value) || (evaluated && value.is_number());
    if is_powerful(name) {
        line.doubt(format!("it sets {name}, which changes what the commands after it are"));
    } else if !known && (evaluated || value.has_hidden_command()) {
        line.doubt(format!("bash may evaluate what {name} is given, which may run commands"));
    }
    line.beyond_allow |= !known;
    line.rehomed |= name == "HOME";
}

/// Notes that a program is given the variable. Some heed names in small letters too (`npm_config_…`, `ac_cv_…`).
pub(super) fn pass(name: &str, value: Value<'_>, line: &mut Line) {
    set(name, value, line);
    line.beyond_allow |= is_own(name) && name.contains('_');
}

/// The name in `NAME=…`, `NAME+=…`, `NAME[…]=…` or `NAME`.
pub(super) fn name_of(word: &str) -> &str {
    word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(word, |end| &word[..end])
}

/// The text after the `=`; empty if there is none.
pub(super) fn value_of(word: &str) -> Value<'_> {
    match word.split_once('=') {
        None | Some((_, READ_WITH_ITS_NODE)) => Value::Text(""),
        Some((_, value)) => Value::Text(value),
    }
}

/// `NAME=value`, which every program that takes such words takes for one.
pub(super) fn is_assignment(word: &str) -> bool {
    let name = name_of(word);
    name.starts_with(|c: char| !c.is_ascii_digit()) && word[name.len()..].starts_with('=')
}
