//! Programs that a rule allows and that the command line itself starts. Nothing else leaves the sandbox without a
//! question.
//!
//! 1. The program has exactly the words of a command in the line, and all of them are known before the line runs.
//! 2. The shell of the line starts it, in the command's directory, and with the environment of the shell, except
//!    variables that change at most the look of its output. So a process that takes over the shell gains nothing: it
//!    can only repeat the line.
//! 3. Its file is the one that the server finds in PATH, or a path that `host_executable` lists, and no command can
//!    replace it. A whole line leaves the sandbox only if also no command can make PATH lead to another file, because
//!    its shell looks up the programs only afterwards. The same applies to a script.
//! 4. It does not run programs that the settings of a project name, as git does (`settings.rs`). Nor do variables such
//!    as LD_LIBRARY_PATH name anything that commands can write.
use super::{Exec, Lineage, MAX_CHANGED_ENV, Place, Rules, shell};
use rustix::fs::{Access, access};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// Variables that bash changes by itself, or that change at most the look of a program's output. `LANGUAGE` is not one
/// of them: it can make a program load translated texts, with their formats, from any directory.
const HARMLESS: [&str; 8] = ["COLUMNS", "LANG", "LINES", "NO_COLOR", "OLDPWD", "PWD", "SHLVL", "_"];

/// The commands of a line that a rule allows, and where they run.
#[derive(Debug, Clone, Default)]
pub struct LineCommands {
    commands: Vec<Vec<String>>,
    workdir: PathBuf,
    writable: Vec<PathBuf>,
    /// The directories of programs, as in PATH.
    search: OsString,
    /// Whether programs load code that commands can write.
    is_tampered: bool,
}

impl LineCommands {
    /// The commands of `line`, which runs in `workdir`. `writable`: what commands can write, or could before, without symbolic links.
    /// `search`: the directories of programs, as in the variable PATH of this process.
    pub fn new(rules: &Rules, line: &str, workdir: &Path, writable: &[PathBuf], search: OsString) -> Self {
        let commands = rules.allowed_commands(line);
        Self { commands, workdir: workdir.to_owned(), writable: writable.to_owned(), search, is_tampered: false }
    }

    /// `loaded`: the files and directories from which all programs, or their shell, load code.
    #[must_use]
    pub fn loading(mut self, loaded: impl IntoIterator<Item = PathBuf>) -> Self {
        self.is_tampered = loaded.into_iter().any(|path| self.is_in_reach(&path));
        self
    }

    /// The names by which the line calls programs that a rule allows.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.commands.iter().filter_map(|command| command.first()).map(String::as_str)
    }

    /// Whether the line itself starts the program, and nothing could have tampered with it.
    pub(super) fn start(&self, exec: &Exec) -> bool {
        let is_of_line = exec.lineage == Lineage::Line && exec.place == Place::Sandbox && exec.workdir == self.workdir;
        is_of_line
            && !self.is_tampered
            && exec.is_complete
            && self.commands.contains(&exec.argv)
            // Something that is not UTF-8 may be something else.
            && !exec.argv.iter().any(|word| word.contains(char::REPLACEMENT_CHARACTER))
            && exec.changed_env.len() < MAX_CHANGED_ENV
            && exec.changed_env.iter().all(|name| is_harmless(name))
            && exec.argv.first().is_some_and(|name| self.find(name).as_ref() == Some(&exec.file))
            && !self.is_in_reach(&exec.file)
            && !self.is_exposed_script(&exec.file)
    }

    /// Whether no command can replace, or could have replaced, the shell or a program of a line that rules allow as
    /// a whole.
    pub(super) fn are_out_of_reach(&self, shell: &str) -> bool {
        let programs = self.names().filter(|name| !shell::is_builtin(name));
        !self.is_tampered && [shell].into_iter().chain(programs).all(|name| self.is_found_out_of_reach(name))
    }

    /// Whether a shell is certain to find an out-of-reach file by this name, even while commands run.
    fn is_found_out_of_reach(&self, name: &str) -> bool {
        if name.contains('/') {
            let file = Path::new(name);
            return is_executable_file(file) && !self.is_in_reach(file) && !self.is_exposed_script(file);
        }
        for directory in std::env::split_paths(&self.search) {
            let file = directory.join(name);
            if self.is_in_reach(&directory) || self.is_in_reach(&file) {
                return false;
            }
            if is_executable_file(&file) {
                return !self.is_exposed_script(&file);
            }
        }
        false
    }

    /// Whether it is a script, which looks up its programs in PATH, and commands can put programs there.
    fn is_exposed_script(&self, file: &Path) -> bool {
        let mut start = [0; 2];
        let is_script = File::open(file).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"#!";
        is_script && std::env::split_paths(&self.search).any(|directory| self.is_in_reach(&directory))
    }

    /// Whether commands can write the file or directory, or put another in its place.
    fn is_in_reach(&self, path: &Path) -> bool {
        let is_writable = |path: &Path| self.writable.iter().any(|root| path.starts_with(root));
        // A relative path starts at the working directory, which commands can write.
        if !path.is_absolute() || is_writable(path) {
            return true;
        }
        for part in path.ancestors() {
            match part.canonicalize() {
                Ok(resolved) => return is_writable(&resolved.join(path.strip_prefix(part).unwrap_or(path))),
                // A link to what does not exist yet.
                Err(_) if part.symlink_metadata().is_ok() => return true,
                Err(_) => {}
            }
        }
        true
    }

    /// The file of a program, without symbolic links.
    fn find(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Path::new(name).is_absolute().then(|| Path::new(name).canonicalize().ok()).flatten();
        }
        let directories = std::env::split_paths(&self.search).filter(|directory| directory.is_absolute());
        directories
            .map(|directory| directory.join(OsStr::new(name)))
            .find(|file| is_executable_file(file))?
            .canonicalize()
            .ok()
    }
}

/// Whether the lookup of a program in PATH ends at this file.
pub(crate) fn is_executable_file(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

/// Whether no program does anything else because of this environment variable.
pub(crate) fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name) || name.starts_with("LC_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    const RULES: &str = "prefix_rule(['tool'])\nprefix_rule(['git'])\nprefix_rule(['tool', 'bad'], decision='prompt')";

    fn write_program(file: &Path, text: &str) {
        fs::write(file, text).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn only_what_the_line_says_starts_outside_and_only_untouched() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["bin", "work"] {
            fs::create_dir(root.join(name)).unwrap();
            write_program(&root.join(name).join("tool"), "");
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
            write_program(&root.join(file), "");
        }
        let rules = Rules::parse("my.rules", "prefix_rule([['tool', 'cd']])").unwrap();
        let reaches = |path: [&str; 2], line: &str, shell: &str| {
            let directory = |name: &&str| if name.is_empty() { PathBuf::new() } else { root.join(name) };
            let search = std::env::join_paths(path.iter().map(directory)).unwrap();
            !LineCommands::new(&rules, line, &root, &[root.join("venv")], search).are_out_of_reach(shell)
        };
        let shell = root.join("bin/bash").into_os_string().into_string().unwrap();
        for path in [["bin", "venv"], ["bin", ""], ["none", "bin"]] {
            assert!(!reaches(path, "cd /tmp && tool x", &shell), "{path:?}");
        }
        assert!(reaches(["venv", "bin"], "tool x", "bash"), "a command can write the shell that is found first");
        let line = "cd /tmp && tool x";
        assert!(reaches(["venv", "bin"], line, &shell), "a command can put a program there before the shell looks");
        assert!(reaches(["", "bin"], line, &shell), "and in the working directory");
        symlink(root.join("bin/tool"), root.join("venv/tool")).unwrap();
        assert!(reaches(["venv", "bin"], line, &shell), "and another link");
        assert!(!reaches(["venv", "bin"], "cd /tmp", &shell));
        write_program(&root.join("bin/tool"), "#!/usr/bin/env python3\n");
        assert!(reaches(["bin", "venv"], line, &shell), "a command can put a `python3` there");
        assert!(!reaches(["bin", "none"], line, &shell));
        fs::set_permissions(root.join("bin/tool"), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(reaches(["bin", "venv"], line, &shell), "the shell goes on to the first executable file");
        assert!(reaches(["bin", "none"], line, &shell), "there is none");
        let tool = root.join("bin/tool").into_os_string().into_string().unwrap();
        assert!(reaches(["bin", "none"], "cd /tmp", &tool), "the shell itself cannot be executed");
    }

    #[test]
    fn nothing_leaves_the_sandbox_if_programs_load_code_that_commands_can_write() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["lib", "work"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        write_program(&root.join("lib/tool"), "");
        symlink("../work/later", root.join("lib/dangling")).unwrap();
        symlink("../lib", root.join("work/link")).unwrap();
        let rules = Rules::parse("my.rules", "prefix_rule(['tool'])").unwrap();
        let (work, search) = (root.join("work"), root.join("lib").into_os_string());
        let commands = LineCommands::new(&rules, "tool", &work, std::slice::from_ref(&work), search);
        let exec = Exec {
            program: "tool".to_owned(),
            file: root.join("lib/tool"),
            argv: vec!["tool".to_owned()],
            is_complete: true,
            workdir: work,
            lineage: Lineage::Line,
            ..Exec::default()
        };
        let file = root.join("lib/tool").into_os_string().into_string().unwrap();
        for (path, leaves) in [
            (root.join("lib"), true),
            (root.join("none/such"), true),
            (root.join("work"), false),
            (root.join("work/none/such"), false),
            (root.join("work/link"), false),
            (root.join("lib/dangling"), false),
            ("lib".into(), false),
            (PathBuf::new(), false),
        ] {
            let commands = commands.clone().loading([root.join("lib"), path.clone()]);
            assert_eq!(
                (commands.start(&exec), commands.are_out_of_reach(&file)),
                (leaves, leaves),
                "{}",
                path.display()
            );
        }
    }
}
