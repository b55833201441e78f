//! Programs that the command line itself starts and that a rule, or a person who has approved the line, lets run outside the sandbox. No text
//! that was read decides this: the kernel reports the program, and each of these must hold.
//!
//! 1. The program has exactly the words of a command in the line, and all of them are known before the line runs. Each command of
//!    the line counts once.
//! 2. The shell of the line starts it, in the command's directory, and with the environment of the shell, except
//!    variables that change at most the look of its output (`harmless.rs`).
//! 3. Its file is the one that the server finds in PATH, or a path that `host_executable` lists. No command can change the file, any
//!    of its interpreters, or a library that is loaded with one of these (`libraries.rs`), or make a link on the way lead elsewhere.
//! 4. Outside, it can do no more with its standard streams than inside (`streams.rs`), and it has no terminal, into which others could type.
//! 5. It does not run programs that the settings of a project name, as git does (`settings.rs`). Nor do HOME, or variables such
//!    as LD_LIBRARY_PATH, name anything that commands can write.
//!
//! After a person's yes to the line, 5 and the terminal of 4 do not matter: the person has been asked.
use super::{
    Exec, Lineage, Place, Rules,
    evaluate::{Decided, LineCommand},
    interpreters, libraries,
    reach::{Reach, find_program},
    settings, streams,
};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// Returns what commands can write now, or could write before.
pub(crate) type Exposed = Arc<dyn Fn() -> Reach + Send + Sync>;

/// Where and how a line runs.
pub(crate) struct LineSetting {
    pub(crate) workdir: PathBuf,
    pub(crate) exposed: Exposed,
    /// The directories of programs, as in PATH.
    pub(crate) search: OsString,
    /// The files and directories from which all programs load code, each with the variable that names it.
    pub(crate) loaded: Vec<(&'static str, PathBuf)>,
    pub(crate) has_terminal: bool,
    pub(crate) is_login: bool,
    /// Whether a person has said yes to what the rules ask about in it.
    pub(crate) is_approved: bool,
}

/// The commands of a line that may run outside the sandbox.
pub(crate) struct LineCommands {
    commands: Vec<LineCommand>,
    /// Which of them have run outside.
    used: Mutex<Vec<bool>>,
    names: BTreeSet<String>,
    /// Whether the line may start something in the background, and so go on without its shell.
    has_background: bool,
    setting: LineSetting,
}

impl LineCommands {
    pub(crate) fn new(rules: &Rules, line: &str, setting: LineSetting) -> Self {
        let (commands, names) = rules.line_commands(line);
        let used = Mutex::new(vec![false; commands.len()]);
        Self { commands, used, names, has_background: line.contains('&'), setting }
    }

    /// The names by which the line may call programs that a rule allows.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// What commands can write now.
    pub(super) fn reach(&self) -> Reach {
        (self.setting.exposed)()
    }

    /// Lets a program leave the sandbox because a rule allows it, or because its line was approved. Then a command of the line counts as run.
    ///
    /// # Errors
    /// Why it stays in the sandbox.
    pub(super) fn leave(&self, exec: &Exec, decided: Decided) -> Result<(), String> {
        let is_approved = decided == Decided::Asked && self.setting.is_approved;
        let reach = self.reach();
        self.start_of_line(exec)?;
        if let Some(why) = self.danger(exec, &reach).filter(|_| !is_approved) {
            return Err(why);
        }
        if let Some(why) = program_in_reach(exec, &self.setting.search, &reach) {
            return Err(why);
        }
        if let Some(why) = streams::objection(&exec.streams, &reach) {
            return Err(why);
        }
        self.count(exec, decided, is_approved)
    }

    /// Whether a program leaves because a person has approved its line.
    pub(super) fn leave_as_approved(&self, exec: &Exec) -> bool {
        self.setting.is_approved && self.leave(exec, Decided::Asked).is_ok()
    }

    /// Whether the shell of the line starts exactly this program, and as it is.
    fn start_of_line(&self, exec: &Exec) -> Result<(), String> {
        let why = if exec.lineage == Lineage::Unknown {
            "the shell of the line had ended before: let the line end with `wait`".to_owned()
        } else if exec.lineage != Lineage::Line || exec.place != Place::Sandbox {
            let why = "a program or script starts it, and not the line itself";
            // The last command of the line may have taken the place of the shell.
            if self.has_background {
                format!("{why}, unless its shell has ended: let the line end with `wait`")
            } else {
                why.to_owned()
            }
        } else if self.setting.is_login {
            "a login shell starts it".to_owned()
        } else if exec.workdir != self.setting.workdir {
            "it runs in another directory than the command: use `workdir`".to_owned()
        } else if let Some(name) = exec.changed_env.first() {
            format!("the line has changed the variable {}", name.chars().take(64).collect::<String>())
        } else if !exec.is_complete {
            "it has too many arguments".to_owned()
        } else if path_of_name(exec, &self.setting.search).and_then(|path| path.canonicalize().ok()).as_ref()
            != Some(&exec.file)
        {
            "it is not the file that the PATH of the exec server leads to, or that `host_executable` lists".to_owned()
        } else {
            return Ok(());
        };
        Err(why)
    }

    /// Why a program may run code that no rule and no person has seen.
    fn danger(&self, exec: &Exec, reach: &Reach) -> Option<String> {
        // A link to it may have any name.
        if settings::is_program(&exec.file.to_string_lossy()) {
            return Some("it runs programs that its settings name, and commands can change those".to_owned());
        }
        let loaded = self.setting.loaded.iter().find(|(_, path)| reach.leads_into(path));
        if let Some((name, path)) = loaded {
            return Some(format!("{name} names {}, which commands can change", path.display()));
        }
        let has_terminal = self.setting.has_terminal || streams::have_terminal(&exec.streams);
        has_terminal.then(|| "others can type into its terminal".to_owned())
    }

    /// What a person should know before a yes to this program; `Err`: why it stays in the sandbox even after a yes.
    pub(super) fn consequence(&self, exec: &Exec) -> Result<Option<String>, String> {
        let reach = self.reach();
        if let Some(why) = streams::objection(&exec.streams, &reach) {
            return Err(why);
        }
        let program = program_in_reach(exec, &self.setting.search, &reach);
        let doubts: Vec<_> = [program, self.danger(exec, &reach)].into_iter().flatten().collect();
        Ok((!doubts.is_empty()).then(|| format!("Note that {}.", doubts.join("; "))))
    }

    fn count(&self, exec: &Exec, decided: Decided, is_approved: bool) -> Result<(), String> {
        // Something that is not UTF-8 may be something else.
        let is_text = !exec.argv.iter().any(|word| word.contains(char::REPLACEMENT_CHARACTER));
        let is_this = |command: &LineCommand| is_text && command.decided == decided && command.words == exec.argv;
        // Each change is one assignment.
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_path = exec.argv.first().is_some_and(|name| name.contains('/'));
        let mut why = match is_path {
            true => "`allow` is about a path only if `host_executable` lists it",
            false => "its words do not stand literally in the line",
        };
        let found = self.commands.iter().enumerate();
        for (at, command) in found.filter(|(_, command)| is_this(command)) {
            match command.stays.filter(|_| !is_approved) {
                Some(stays) => why = stays,
                None if used[at] => why = "the line has this command only once",
                None => {
                    used[at] = true;
                    return Ok(());
                }
            }
        }
        Err(why.to_owned())
    }
}

/// Why the program is not, or will not be, what it seems: commands can change its file, a link by which it is found, a library that is loaded
/// with it, or one of its interpreters.
fn program_in_reach(exec: &Exec, search: &OsString, reach: &Reach) -> Option<String> {
    let changeable = |file: &Path| format!("commands can change {}", file.display());
    let named = exec.workdir.join(&exec.program);
    let leads = [Some(named), path_of_name(exec, search)].into_iter().flatten().find(|path| reach.leads_into(path));
    if let Some(path) = leads {
        return Some(changeable(&path));
    }
    if reach.has_program(&exec.file) {
        return Some(changeable(&exec.file));
    }
    if let Some(why) = libraries::objection(&exec.file, reach) {
        return Some(why);
    }
    let lines = [&exec.interpreter].into_iter().chain(&exec.further_interpreters).filter(|words| !words.is_empty());
    lines.into_iter().find_map(|words| interpreters::objection(words, search, reach))
}

/// The path that the first argument names, with its links.
fn path_of_name(exec: &Exec, search: &OsString) -> Option<PathBuf> {
    let name = exec.argv.first()?;
    match name.contains('/') {
        true => Some(PathBuf::from(name)).filter(|path| path.is_absolute()),
        false => find_program(name, search),
    }
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

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    struct Place {
        _directory: tempfile::TempDir,
        root: PathBuf,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap();
            for name in ["bin", "work"] {
                fs::create_dir(root.join(name)).unwrap();
                write_program(&root.join(name).join("tool"), "");
                write_program(&root.join(name).join("git"), "");
            }
            Self { _directory: directory, root }
        }

        fn setting(&self) -> LineSetting {
            let work = self.root.join("work");
            let exposed = work.clone();
            LineSetting {
                workdir: work,
                exposed: Arc::new(move || Reach::new(vec![exposed.clone()])),
                search: self.root.join("bin").into_os_string(),
                loaded: Vec::new(),
                has_terminal: false,
                is_login: false,
                is_approved: false,
            }
        }

        fn of_line(&self, line: &str) -> LineCommands {
            self.with(line, |_| ())
        }

        fn with(&self, line: &str, change: impl FnOnce(&mut LineSetting)) -> LineCommands {
            let mut setting = self.setting();
            change(&mut setting);
            LineCommands::new(&Rules::parse("my.rules", RULES).unwrap(), line, setting)
        }

        fn exec(&self, argv: &[&str]) -> Exec {
            Exec {
                program: self.root.join("bin").join(argv[0]).display().to_string(),
                file: self.root.join("bin").join(argv[0]),
                argv: words(argv),
                is_complete: true,
                workdir: self.root.join("work"),
                streams: streams::tests::captured(),
                lineage: Lineage::Line,
                ..Exec::default()
            }
        }
    }

    #[test]
    fn only_what_the_line_says_starts_outside_and_only_untouched() {
        let place = Place::new();
        let exec = place.exec(&["tool", "a b"]);
        let leaves = |line: &str, exec: &Exec| place.of_line(line).leave(exec, Decided::Allowed).is_ok();
        let line = "make && tool 'a b'; git status; tool bad";
        for line in [line, "LC_ALL=C tool 'a b'", "eval x; tool 'a b'", "echo $HOME; test -e x; tool 'a b' > out"] {
            assert!(leaves(line, &exec), "{line}");
        }
        for line in [
            "make",
            "tool a b",
            "tool 'a b' c",
            "tool \"$x\"",
            "tool a*",
            "(tool 'a b')",
            "if true; then tool 'a b'; fi",
            "x=$(tool 'a b')",
            "bash -c \"tool 'a b'\"",
            "busybox tool 'a b'",
        ] {
            assert!(!leaves(line, &exec), "{line}");
        }
        for other in [
            Exec { lineage: Lineage::Nested(1), ..exec.clone() },
            Exec { lineage: Lineage::Unknown, ..exec.clone() },
            Exec { place: super::Place::Outside, ..exec.clone() },
            Exec { file: place.root.join("work/tool"), ..exec.clone() },
            Exec { program: place.root.join("work/link").display().to_string(), ..exec.clone() },
            Exec { program: "tool".to_owned(), ..exec.clone() },
            Exec { workdir: place.root.clone(), ..exec.clone() },
            Exec { is_complete: false, ..exec.clone() },
            Exec { changed_env: words(&["LD_PRELOAD"]), ..exec.clone() },
            Exec { argv: words(&["tool", "a", "b"]), ..exec.clone() },
            Exec { streams: Vec::new(), ..exec.clone() },
            Exec { interpreter: vec![place.root.join("work/sh").display().to_string()], ..exec.clone() },
            Exec {
                interpreter: words(&["/bin/sh"]),
                further_interpreters: vec![vec![place.root.join("work/sh").display().to_string()]],
                ..exec.clone()
            },
        ] {
            assert!(!leaves(line, &other), "{other:?}");
        }
        assert!(!leaves(line, &place.exec(&["git", "status"])), "git runs what settings name");
        assert!(!leaves(line, &place.exec(&["tool", "bad"])), "it is asked about");
    }

    #[test]
    fn each_command_of_the_line_counts_once() {
        let place = Place::new();
        let (commands, exec) = (place.of_line("tool x; tool x & tool y"), place.exec(&["tool", "x"]));
        for leaves in [true, true, false, false] {
            assert_eq!(commands.leave(&exec, Decided::Allowed).is_ok(), leaves);
        }
        assert!(commands.leave(&place.exec(&["tool", "y"]), Decided::Allowed).is_ok());
        let once = place.of_line("tool x");
        let elsewhere = Exec { workdir: "/".into(), ..exec.clone() };
        assert!(once.leave(&elsewhere, Decided::Allowed).is_err());
        assert!(once.leave(&exec, Decided::Allowed).is_ok(), "what stays inside does not count");
    }

    #[test]
    fn nothing_leaves_unasked_if_others_can_type_or_put_code_where_programs_load_it() {
        let place = Place::new();
        let (exec, asked) = (place.exec(&["tool", "x"]), place.exec(&["tool", "bad"]));
        let work = place.root.join("work");
        symlink("../work/later", place.root.join("bin/dangling")).unwrap();
        type Change<'a> = Box<dyn Fn(&mut LineSetting) + 'a>;
        let loads = |path: PathBuf| -> Change<'_> {
            Box::new(move |setting| setting.loaded = vec![("PERL5LIB", "/none".into()), ("HOME", path.clone())])
        };
        let changes: [(Change<'_>, bool); 9] = [
            (loads(place.root.join("bin")), true),
            (loads("/none/such".into()), true),
            (loads(work.clone()), false),
            (loads(work.join("none/such")), false),
            (loads(place.root.join("bin/dangling")), false),
            (loads("lib".into()), false),
            (loads(PathBuf::new()), false),
            (Box::new(|setting| setting.has_terminal = true), false),
            (Box::new(|_| ()), true),
        ];
        for (at, (change, leaves)) in changes.iter().enumerate() {
            assert_eq!(place.with("tool x", change).leave(&exec, Decided::Allowed).is_ok(), *leaves, "{at}");
            // Without a yes, somebody has decided that what a rule asks about is as good as allowed.
            for (is_approved, leaves) in [(false, *leaves), (true, true)] {
                let commands = place.with("tool bad", |setting| {
                    change(setting);
                    setting.is_approved = is_approved;
                });
                assert_eq!(commands.leave(&asked, Decided::Asked).is_ok(), leaves, "{at}: {is_approved}");
            }
        }
        let login = place.with("tool x", |setting| setting.is_login = true);
        assert!(login.leave(&exec, Decided::Allowed).is_err());
    }
}
