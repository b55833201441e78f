//! Which programs of a command are sent to the exec server, and with which facts.
use super::{
    contents::Contents,
    memory::is_internal,
    waiting::{Details, Waiting},
};
use crate::exec::policy::{Exec, Lineage, MAX_CHANGED_ENV, Place, is_harmless, may_run_code};
use std::{
    collections::{HashMap, HashSet},
    ffi::{OsStr, OsString},
    hash::{BuildHasher, RandomState},
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::LazyLock,
};

/// The maximum size of the arguments in a question, including those of interpreters, in bytes of JSON. A packet
/// must hold them together with paths and names, which have their own limits.
const MAX_QUESTION_ARGUMENTS: usize = 16 << 10;

/// The part of the rules and of the command that the supervisor needs.
pub(super) struct Scope {
    /// The file names of restricted programs.
    pub(super) names: HashSet<String>,
    /// The first words of the line's commands that a rule allows.
    pub(super) allowed: HashSet<String>,
}

impl Scope {
    /// Whether one of the names of the program is that of a restricted program.
    pub(super) fn is_restricted(&self, waiting: &Waiting) -> bool {
        let is_restricted = |path: &Path| {
            path.file_name().and_then(OsStr::to_str).is_some_and(|name| self.names.contains(name))
        };
        is_restricted(&waiting.program)
            || waiting.name.as_ref().is_some_and(|name| is_restricted(Path::new(name)))
            || waiting.interpreters.iter().flat_map(|command| command.first()).any(|name| is_restricted(Path::new(name)))
            || is_restricted(&waiting.executable.resolved)
    }

    /// Whether its `argv[0]` is the name by which the line calls a program that a rule allows.
    pub(super) fn is_allowed(&self, waiting: &Waiting) -> bool {
        waiting.name.as_ref().and_then(|name| name.to_str()).is_some_and(|name| self.allowed.contains(name))
    }

    /// The facts about a program, for a question.
    ///
    /// # Errors
    /// A question cannot contain all relevant facts.
    pub(super) fn exec(
        &self,
        waiting: &Waiting,
        details: &Details,
        lineage: Lineage,
        place: Place,
    ) -> io::Result<Exec> {
        let text = |text: &OsString| text.to_string_lossy().into_owned();
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let mut left = MAX_QUESTION_ARGUMENTS;
        let mut fits = |argument: &OsString| {
            let length = serde_json::to_vec(&argument.to_string_lossy()).map_or(usize::MAX, |escaped| escaped.len());
            let fits = length < left;
            left = left.saturating_sub(length);
            fits
        };
        // The name of the interpreter itself decides in any case, so it is never left out.
        let (mut further_interpreters, mut is_complete) = (Vec::new(), true);
        for command in waiting.interpreters.iter().skip(1) {
            let words = command.iter().enumerate().take_while(|(at, word)| fits(word) || *at == 0);
            let words: Vec<_> = words.map(|(_, word)| text(word)).collect();
            is_complete &= words.len() == command.len();
            further_interpreters.push(words);
        }
        let argv: Vec<_> = details.arguments.iter().take_while(|argument| fits(argument)).map(text).collect();
        is_complete &= argv.len() == details.arguments.len();
        Ok(Exec {
            program: path(&waiting.program),
            file: path(&waiting.executable.resolved).into(),
            is_complete,
            argv,
            workdir: path(&details.workdir).into(),
            interpreter: waiting.executable.interpreter.iter().map(text).collect(),
            further_interpreters,
            changed_env: changed(&details.environment, |name, value| is_harmless(name, value, &waiting.program, &details.workdir))?,
            streams: details.streams.clone(),
            identity: identity(waiting, details),
            lineage,
            place,
        })
    }
}

/// The names of variables that differ from those of the command line's shell, which this process has too, without harmless ones.
///
/// # Errors
/// There are too many by which programs run other code.
fn changed(environment: &[OsString], is_harmless: impl Fn(&OsStr, Option<&OsStr>) -> bool) -> io::Result<Vec<String>> {
    let variables: HashMap<_, _> = environment.iter().filter_map(|entry| variable(entry)).collect();
    let own: HashMap<_, _> = std::env::vars_os().filter(|(name, _)| !is_internal(name)).collect();
    let removed = own.keys().map(OsString::as_os_str).filter(|name| !variables.contains_key(name));
    let removed = removed.filter(|name| !is_harmless(name, None));
    let set = variables.iter().filter(|(name, value)| own.get(**name).is_none_or(|own| own != **value));
    let set = set.filter(|(name, value)| !is_harmless(name, Some(value)));
    let names = removed.chain(set.map(|(name, _)| *name));
    let mut names: Vec<_> = names.map(|name| name.to_string_lossy().chars().take(64).collect::<String>()).collect();
    names.sort_by_cached_key(|name| (!may_run_code(name), name.clone()));
    if names.get(MAX_CHANGED_ENV).is_some_and(|name| may_run_code(name)) {
        let why = format!("more than {MAX_CHANGED_ENV} variables by which programs run other code (GIT_*, LD_*, …) have been changed");
        return Err(io::Error::other(why));
    }
    names.truncate(MAX_CHANGED_ENV);
    Ok(names)
}

/// A number that is the same for the same program and contents with the same arguments, directory (the same one, not another with its path) and
/// variables, except harmless ones. The hash has secret keys, so that no command can construct two programs with the same number.
fn identity(waiting: &Waiting, details: &Details) -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let is_harmless = |name: &OsStr, value: &OsStr| {
        is_harmless(name, Some(value), &waiting.program, &details.workdir) || is_internal(name)
    };
    let is_of_concern = |entry: &&OsString| variable(entry).is_none_or(|(name, value)| !is_harmless(name, value));
    let mut entries: Vec<_> = details.environment.iter().filter(is_of_concern).collect();
    entries.sort();
    let contents = Contents::of_program(waiting, details);
    let directory = Contents::directory(&details.directory);
    KEYS.hash_one((&waiting.executable.resolved, contents, &details.arguments, &details.workdir, directory, entries))
}

/// The name and the value of `NAME=value`.
fn variable(entry: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let bytes = entry.as_bytes();
    let at = bytes.iter().skip(1).position(|byte| *byte == b'=')? + 1;
    Some((OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_by_which_programs_run_other_code_are_all_named_or_nothing_is() {
        let set = |name: &str, count| (0..count).map(|number| OsString::from(format!("{name}{number}=1"))).collect();
        let own: Vec<_> = std::env::vars_os().map(|(name, value)| [name, "=".into(), value].into_iter().collect()).collect();
        let changed =
            |others: Vec<OsString>, more: Vec<OsString>| changed(&[own.clone(), others, more].concat(), |_, _| false);
        let names = changed(set("A", 100), set("LD_", 64)).expect("all are named");
        assert!(names.len() == 64 && names.iter().all(|name| name.starts_with("LD_")), "{names:?}");
        let error = changed(set("A", 1), set("LD_", 65)).expect_err("too many");
        assert!(error.to_string().contains("more than 64 variables"), "{error}");
    }
}
