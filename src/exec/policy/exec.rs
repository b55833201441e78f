//! A program that a running command is about to execute.
use super::streams::Stream;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The maximum length of [`Exec::changed_env`]. A list of this length may be incomplete.
pub(crate) const MAX_CHANGED_ENV: usize = 64;

/// A program that a running command is about to execute, wherever in the command: the shell of its line, `make`, a script, …
///
/// Texts that are not UTF-8 have replacement characters in their place. Everything was read while the program waited to be executed; the
/// process that executes it may be hostile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Exec {
    /// The path as it was given to `execve`; if relative, from `workdir`.
    pub program: String,
    /// The file that this path leads to, without symbolic links.
    pub file: PathBuf,
    /// Its arguments, its own name included: the first ones, as many as have 16 KiB as JSON.
    pub argv: Vec<String>,
    /// Whether these are all arguments.
    pub is_complete: bool,
    /// The working directory of the process.
    pub workdir: PathBuf,
    /// If the file is a script: the program that its first line names, and the argument there, if any.
    pub interpreter: Vec<String>,
    /// The same with the file that this interpreter leads to behind links; if that is a script too, with its
    /// interpreter, and so on. Each has the words that follow the interpreter, up to the path of this file.
    #[serde(default)]
    pub further_interpreters: Vec<Vec<String>>,
    /// The names of environment variables, at most 64, that differ from those of the command line's shell, and may change more than the
    /// look of an output: first those by which many programs run other code.
    pub changed_env: Vec<String>,
    /// Its standard input, output and error.
    #[serde(default)]
    pub streams: Vec<Stream>,
    /// A number that identifies the file and its contents, all arguments, the directory and the environment (except harmless
    /// variables such as `SHLVL`) within one command. It is computed from the original bytes, which the texts here
    /// may not contain.
    #[serde(default)]
    pub identity: u64,
    /// Which process executes it.
    pub lineage: Lineage,
    /// Where it would run without an action.
    pub place: Place,
}

/// How far the process that executes a program is from the command line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lineage {
    /// The shell of the command line itself.
    Line,
    /// A program that the line has started, or one started by that, and so on. The number counts the processes in
    /// between that have executed a program.
    Nested(u32),
    /// Its parents have ended.
    #[default]
    Unknown,
}

/// Where a program runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// Inside the sandbox.
    #[default]
    Sandbox,
    /// Outside: an approved program has started it.
    Outside,
}

impl Exec {
    /// The commands that it amounts to, each as words: by its name as given, by its file, by `argv[0]`, and for a script by its
    /// interpreters.
    pub(super) fn commands(&self) -> Vec<Vec<String>> {
        let arguments = || self.argv.iter().skip(1).cloned();
        let file = self.file.to_string_lossy().into_owned();
        let mut commands = vec![[self.program.clone()].into_iter().chain(arguments()).collect()];
        for name in [Some(file), self.argv.first().cloned()].into_iter().flatten() {
            commands.push([name].into_iter().chain(arguments()).collect());
        }
        for interpreter in
            [&self.interpreter].into_iter().chain(&self.further_interpreters).filter(|words| !words.is_empty())
        {
            let script = [self.program.clone()].into_iter().chain(arguments());
            commands.push(interpreter.iter().cloned().chain(script).collect());
        }
        let mut unique: Vec<Vec<String>> = Vec::new();
        for command in commands {
            if !unique.contains(&command) {
                unique.push(command);
            }
        }
        unique
    }
}
