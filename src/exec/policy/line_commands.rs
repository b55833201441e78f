//! Programs that a rule allows and that the line of a command starts itself: nothing else leaves the sandbox without a question.
//!
//! 1. The program has exactly the words of a command in the line, and all of them are known before the line runs.
//! 2. The shell of the line starts it, in the command's directory, and its environment is that of the shell but for variables that
//!    change at most the looks of its output. So a process that takes the shell over gains nothing: it can only repeat the line.
//! 3. Its file is what PATH finds for the server, or the path that `host_executable` lists, and no command can replace it.
//! 4. It does not run what the settings of a project name (git): see `settings`.
use super::{Exec, Lineage, Place, Rules, shell};
use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// Variables that bash changes by itself, or that change at most the looks of a program's output. Not `LANGUAGE`: by it a program finds translated
/// texts, with their formats, in any directory.
const HARMLESS: [&str; 8] = ["COLUMNS", "LANG", "LINES", "NO_COLOR", "OLDPWD", "PWD", "SHLVL", "_"];
/// A list of changed variables of this length may be incomplete.
const MAX_CHANGED_ENV: usize = 64;

/// The commands of a line that a rule allows, and where they run.
#[derive(Debug, Clone, Default)]
pub struct LineCommands {
    commands: Vec<Vec<String>>,
    workdir: PathBuf,
    writable: Vec<PathBuf>,
    /// As the variable PATH.
    search: OsString,
}

impl LineCommands {
    /// The commands of `line`, which runs in `workdir`. `writable`: what commands can write, or could before, without symbolic links.
    /// `search`: the directories of programs, as in the variable PATH of this process.
    pub fn new(rules: &Rules, line: &str, workdir: &Path, writable: &[PathBuf], search: OsString) -> Self {
        let commands = rules.allowed_commands(line);
        Self { commands, workdir: workdir.to_owned(), writable: writable.to_owned(), search }
    }

    /// The names by which the line calls programs that a rule allows.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.commands.iter().filter_map(|command| command.first()).map(String::as_str)
    }

    /// Whether the line itself starts the program, and nothing could have tampered with it.
    pub(super) fn start(&self, exec: &Exec) -> bool {
        let is_of_line = exec.lineage == Lineage::Line && exec.place == Place::Sandbox && exec.workdir == self.workdir;
        is_of_line
            && exec.is_complete
            && self.commands.contains(&exec.argv)
            // Something that is not UTF-8 may be something else.
            && !exec.argv.iter().any(|word| word.contains(char::REPLACEMENT_CHARACTER))
            && exec.changed_env.len() < MAX_CHANGED_ENV
            && exec.changed_env.iter().all(|name| is_harmless(name))
            && exec.argv.first().is_some_and(|name| self.find(name).as_ref() == Some(&exec.file))
            && self.is_out_of_reach(&exec.file)
    }

    /// Whether no command could have replaced the shell or a program of a line that rules allow whole.
    pub(super) fn are_out_of_reach(&self, shell: &str) -> bool {
        let programs = self.names().filter(|name| !shell::is_builtin(name));
        [shell].into_iter().chain(programs).all(|name| self.find(name).is_some_and(|file| self.is_out_of_reach(&file)))
    }

    fn is_out_of_reach(&self, file: &Path) -> bool {
        !self.writable.iter().any(|root| file.starts_with(root))
    }

    /// The file of a program, without symbolic links.
    fn find(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Path::new(name).is_absolute().then(|| Path::new(name).canonicalize().ok()).flatten();
        }
        let directories = std::env::split_paths(&self.search).filter(|directory| directory.is_absolute());
        directories.map(|directory| directory.join(OsStr::new(name))).find(|file| file.is_file())?.canonicalize().ok()
    }
}

/// Whether no program does anything else because of this environment variable.
pub(crate) fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name) || name.starts_with("LC_")
}

/// Whether many programs run other code because of this environment variable. Others may do so too.
pub(crate) fn may_run_code(name: &str) -> bool {
    ["BASH_ENV", "ENV", "PATH"].contains(&name)
        || ["GIT_", "LD_", "NODE_", "PERL", "PYTHON", "RUBY"].iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const RULES: &str = "prefix_rule(['tool'])\nprefix_rule(['git'])\nprefix_rule(['tool', 'bad'], decision='prompt')";

    #[test]
    fn only_what_the_line_says_starts_outside_and_only_untouched() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["bin", "work"] {
            fs::create_dir(root.join(name)).unwrap();
            fs::write(root.join(name).join("tool"), "").unwrap();
        }
        let rules = Rules::parse("my.rules", RULES).unwrap();
        let of_line = |line: &str| {
            let (workdir, search) = (root.join("work"), root.join("bin").into_os_string());
            LineCommands::new(&rules, line, &workdir, std::slice::from_ref(&workdir), search)
        };
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let exec = Exec {
            program: "tool".to_owned(),
            file: root.join("bin/tool"),
            argv: words(&["tool", "a b"]),
            is_complete: true,
            workdir: root.join("work"),
            changed_env: words(&["SHLVL", "_"]),
            lineage: Lineage::Line,
            ..Exec::default()
        };
        let commands = of_line("make && tool 'a b'; git status; tool bad");
        assert_eq!(
            commands.names().collect::<Vec<_>>(),
            ["tool"],
            "git runs what settings name, and `tool bad` is asked about"
        );
        assert!(commands.start(&exec));
        assert!(of_line("LC_ALL=C tool 'a b'").start(&exec));
        for line in ["make", "tool a b", "tool 'a b' c", "tool \"$x\"", "tool 'a b'; $x", "tool 'a b'; eval \"$x\""] {
            assert!(!of_line(line).start(&exec), "{line}");
        }
        for other in [
            Exec { lineage: Lineage::Nested(1), ..exec.clone() },
            Exec { lineage: Lineage::Unknown, ..exec.clone() },
            Exec { place: Place::Outside, ..exec.clone() },
            Exec { file: root.join("work/tool"), ..exec.clone() },
            Exec { workdir: root.clone(), ..exec.clone() },
            Exec { is_complete: false, ..exec.clone() },
            Exec { changed_env: words(&["LD_PRELOAD"]), ..exec.clone() },
            Exec { changed_env: words(&["_"; 64]), ..exec.clone() },
            Exec { argv: words(&["tool", "a", "b"]), ..exec.clone() },
        ] {
            assert!(!commands.start(&other), "{other:?}");
        }
        for (name, is_harmless) in [("LANG", true), ("LC_ALL", true), ("LANGUAGE", false)] {
            let changed = Exec { changed_env: words(&[name]), ..exec.clone() };
            assert_eq!(commands.start(&changed), is_harmless, "{name}");
        }
        let (writable, search) = (root.clone(), root.join("bin").into_os_string());
        let commands = LineCommands::new(&rules, "tool 'a b'", &root.join("work"), &[writable], search);
        assert!(!commands.start(&exec), "a command can replace the program");
    }

    #[test]
    fn a_line_is_only_as_trustworthy_as_the_files_of_its_programs() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["bin", "venv"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        for file in ["bin/tool", "bin/bash", "venv/bash"] {
            fs::write(root.join(file), "").unwrap();
        }
        let rules = Rules::parse("my.rules", "prefix_rule([['tool', 'cd']])").unwrap();
        let reaches = |line: &str, shell: &str| {
            let search = std::env::join_paths([root.join("venv"), root.join("bin")]).unwrap();
            !LineCommands::new(&rules, line, &root, &[root.join("venv")], search).are_out_of_reach(shell)
        };
        let shell = root.join("bin/bash").into_os_string().into_string().unwrap();
        assert!(!reaches("cd /tmp && tool x", &shell));
        assert!(reaches("tool x", "bash"), "a command can write the shell that is found first");
        fs::write(root.join("venv/tool"), "").unwrap();
        assert!(reaches("cd /tmp && tool x", &shell), "a command can write the program that is found first");
        assert!(!reaches("cd /tmp", &shell));
    }
}
