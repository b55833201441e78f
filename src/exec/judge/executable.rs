//! The file of a program: its name behind links, and the interpreters of a script.
//!
//! Most commands execute the same few files many times. So the data that were read from a file are kept while its
//! metadata stay the same, unless
//! 1. it has more than one name (hard links), because the same file then is another program by another path, or
//! 2. it has just been changed: the kernel's timestamps are too coarse to show a second change.
use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
};
use std::{
    collections::HashMap,
    ffi::OsString,
    fs::{self, File, Metadata},
    io::Read,
    os::{
        fd::AsRawFd,
        unix::{
            ffi::OsStringExt,
            fs::{MetadataExt, PermissionsExt},
        },
    },
    path::{Path, PathBuf},
    rc::Rc,
    time::{Duration, SystemTime},
};

/// How much of a script's first line the kernel reads, in bytes.
const MAX_SCRIPT_LINE: usize = 256;
/// The maximum of interpreters that the kernel follows: the interpreter of a script may be a script too.
const MAX_INTERPRETERS: usize = 5;
/// The maximum number of files whose data are kept. If there are more, all are dropped.
const MAX_KEPT: usize = 1_024;
/// A file that was changed within this time is not kept. Above the granularity of the timestamps of all file systems (2 s: FAT).
const JUST_CHANGED: Duration = Duration::from_secs(3);

/// A file that the kernel may execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Executable {
    /// The file without symbolic links.
    pub(super) resolved: PathBuf,
    /// The program and the argument that the first line of a script names.
    pub(super) interpreter: Vec<OsString>,
    /// Whether it is the program of this process.
    pub(super) is_this_program: bool,
}

impl Executable {
    /// A file that cannot be executed. `program`: its path as given.
    pub(super) fn none(program: &Path) -> Self {
        Self { resolved: program.to_owned(), interpreter: Vec::new(), is_this_program: false }
    }

    /// A file that cannot be read.
    pub(super) fn unknown(file: &Path, program: &Path) -> Self {
        fs::canonicalize(file).map_or_else(|_| Self::none(program), |resolved| Self::none(&resolved))
    }

    /// The commands that the execution of a script amounts to, each without the path and the arguments of the
    /// script: with the interpreter that the first line names, with the file of this interpreter (of a long path,
    /// only the file name), and, if that file is a script too, with its interpreter. `find`: looks up a path as the
    /// thread does.
    pub(super) fn interpreters(&self, mut find: impl FnMut(&Path) -> Option<Rc<Self>>) -> Vec<Vec<OsString>> {
        let mut commands: Vec<Vec<OsString>> = Vec::new();
        let (mut line, mut script) = (self.interpreter.clone(), Vec::new());
        while !line.is_empty() && commands.len() < 2 * MAX_INTERPRETERS {
            line.append(&mut script);
            let found = find(Path::new(&line[0]));
            commands.push(line.clone());
            let Some(found) = found else { break };
            script = std::mem::replace(&mut line, found.interpreter.clone());
            let file = found.resolved.as_os_str();
            let file = if file.len() > MAX_SCRIPT_LINE { found.resolved.file_name().unwrap_or(file) } else { file };
            commands.push([file.to_owned()].into_iter().chain(script.iter().skip(1).cloned()).collect());
        }
        commands.dedup();
        commands
    }

    fn read(file: &Path) -> Option<Self> {
        // If it is not a regular file any more, opening it must not block.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = open(file, flags, Mode::empty()).ok()?;
        let resolved = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok()?;
        let mut start = [0; MAX_SCRIPT_LINE];
        let length = File::from(opened).read(&mut start).ok()?;
        let interpreter = interpreter(&start[..length]).unwrap_or_default();
        Some(Self { resolved, interpreter, is_this_program: false })
    }
}

/// Stays the same as long as a name refers to the same unchanged file: device, inode, size, and the times of its last changes in nanoseconds.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity {
    file: (u64, u64, u64),
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    /// `None`: the file may have other names, so nothing of it is kept.
    fn of(data: &Metadata) -> Option<Self> {
        (data.nlink() == 1).then(|| Self {
            file: (data.dev(), data.ino(), data.size()),
            modified: (data.mtime(), data.mtime_nsec()),
            changed: (data.ctime(), data.ctime_nsec()),
        })
    }

    /// The time since the last change, whose fraction of a second is ignored; `None`: the change is in the future.
    fn age(&self) -> Option<Duration> {
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(self.changed.0.try_into().ok()?);
        SystemTime::now().duration_since(changed).ok()
    }
}

#[derive(Debug)]
pub(super) struct Executables {
    kept: HashMap<Identity, Rc<Executable>>,
    just_changed: Duration,
    /// The device and inode of the program of this process.
    this_program: Option<(u64, u64)>,
}

impl Executables {
    pub(super) fn new() -> Self {
        let this_program = fs::metadata("/proc/self/exe").map(|data| (data.dev(), data.ino())).ok();
        Self { kept: HashMap::new(), just_changed: JUST_CHANGED, this_program }
    }

    /// `None`: the file may be executed, but not read.
    ///
    /// # Errors
    /// Why the kernel will not execute it, as far as its type and mode show.
    pub(super) fn look_up(&mut self, file: &Path) -> Result<Option<Rc<Executable>>, Errno> {
        let data = fs::metadata(file).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ACCESS))?;
        if !data.is_file() || data.permissions().mode() & 0o111 == 0 {
            return Err(Errno::ACCESS);
        }
        let identity = Identity::of(&data);
        if let Some(known) = identity.as_ref().and_then(|identity| self.kept.get(identity)) {
            return Ok(Some(known.clone()));
        }
        Ok(self.read(file, &data, identity))
    }

    /// Like [`look_up`](Self::look_up), for a file whose directories may have been renamed since it was read.
    /// `None` also if it cannot be executed.
    pub(super) fn read_again(&mut self, file: &Path) -> Option<Rc<Executable>> {
        let data = fs::metadata(file).ok()?;
        self.read(file, &data, Identity::of(&data))
    }

    fn read(&mut self, file: &Path, data: &Metadata, identity: Option<Identity>) -> Option<Rc<Executable>> {
        let is_this_program = self.this_program == Some((data.dev(), data.ino()));
        let read = Executable::read(file).map(|read| Rc::new(Executable { is_this_program, ..read }));
        let identity = identity.filter(|identity| identity.age().is_some_and(|age| age >= self.just_changed));
        if let (Some(identity), Some(read)) = (identity, &read) {
            if self.kept.len() >= MAX_KEPT {
                self.kept.clear();
            }
            self.kept.insert(identity, read.clone());
        }
        read
    }
}

/// The program and its argument of a `#!` line, as the kernel reads it: only blanks and tabs separate them, and the
/// line also ends at a NUL.
fn interpreter(start: &[u8]) -> Option<Vec<OsString>> {
    let line = trim(start.strip_prefix(b"#!")?.split(|byte| matches!(byte, b'\n' | 0)).next()?);
    // The kernel splits once: all that follows the program is one argument.
    let program = line.split(|byte| matches!(byte, b' ' | b'\t')).next().filter(|program| !program.is_empty())?;
    let argument = trim(&line[program.len()..]);
    let words = [program, argument].into_iter().filter(|word| !word.is_empty());
    Some(words.map(|word| OsString::from_vec(word.to_vec())).collect())
}

/// Without the blanks and tabs at both ends.
fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn the_interpreter_of_a_script_is_what_its_first_line_names() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("script");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            let Executable { resolved, interpreter, .. } = Executable::read(&file).unwrap();
            assert_eq!(resolved, file.canonicalize().unwrap());
            interpreter.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(read("#!/bin/sh\nrm x\n"), ["/bin/sh"]);
        assert_eq!(read("#! /usr/bin/env -S a b \n"), ["/usr/bin/env", "-S a b"]);
        assert_eq!(read("#!\t/bin/rm\t-f  x\t\n"), ["/bin/rm", "-f  x"]);
        assert_eq!(read("#!/bin/rm\0x y\n"), ["/bin/rm"]);
        assert_eq!(read("#!/bin/rm x\0y\n"), ["/bin/rm", "x"]);
        assert_eq!(read("#!/work/x\r\n"), ["/work/x\r"]);
        assert_eq!(read("#!/work/x\u{c}y -z\r\n"), ["/work/x\u{c}y", "-z\r"]);
        assert_eq!(read("#!"), [""; 0]);
        assert_eq!(read("rm x"), [""; 0]);
        assert_eq!(Executable::read(directory.path()), None, "a directory");
    }

    #[test]
    fn a_script_whose_interpreter_is_a_link_or_a_script_amounts_to_more_commands() {
        let find = |path: &Path| {
            let (resolved, interpreter): (_, &[&str]) = match path.to_str().expect("text") {
                "/bin/sh" | "/usr/bin/dash" => ("/usr/bin/dash", &[]),
                "outer" => ("/work/outer", &["/bin/sh", "-e x"]),
                "loop" => ("/work/loop", &["loop"]),
                _ => return None,
            };
            let interpreter = interpreter.iter().map(OsString::from).collect();
            Some(Rc::new(Executable { resolved: resolved.into(), interpreter, is_this_program: false }))
        };
        let commands = |line: &[&str]| {
            let interpreter = line.iter().map(OsString::from).collect();
            let commands = Executable { interpreter, ..Executable::none(Path::new("script")) }.interpreters(find);
            let text = |command: &Vec<OsString>| command.join(OsStr::new(" ")).into_string().expect("text");
            commands.iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(commands(&[]), [""; 0]);
        assert_eq!(commands(&["none", "-x"]), ["none -x"]);
        assert_eq!(commands(&["/usr/bin/dash"]), ["/usr/bin/dash"]);
        assert_eq!(commands(&["/bin/sh", "-e"]), ["/bin/sh -e", "/usr/bin/dash -e"]);
        let by = ["outer -y", "/work/outer -y", "/bin/sh -e x outer -y", "/usr/bin/dash -e x outer -y"];
        assert_eq!(commands(&["outer", "-y"]), by);
        assert_eq!(commands(&["loop"]).len(), 2 * MAX_INTERPRETERS);
    }

    #[test]
    fn a_file_that_has_another_name_or_has_changed_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let (file, other) = (directory.path().join("script"), directory.path().join("other"));
        fs::write(&file, "#!/bin/sh\n").unwrap();
        let mut executables = Executables::new();
        assert_eq!(executables.look_up(&file), Err(Errno::ACCESS), "it is not executable");
        assert_eq!(executables.look_up(&other), Err(Errno::NOENT));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let mut look_up = |file: &Path, kept: usize| {
            let found = executables.look_up(file).unwrap().unwrap();
            assert_eq!((&found.resolved, executables.kept.len()), (&file.canonicalize().unwrap(), kept));
            if kept == 0 {
                executables.just_changed = Duration::ZERO;
            }
            found.interpreter[0].clone().into_string().unwrap()
        };
        assert_eq!(look_up(&file, 0), "/bin/sh", "it has just been changed");
        assert_eq!(look_up(&file, 1), "/bin/sh");
        assert_eq!(look_up(&file, 1), "/bin/sh");
        fs::write(&file, "#!/bin/dash\n").unwrap();
        assert_eq!(look_up(&file, 2), "/bin/dash");
        let moved = directory.path().join("moved");
        fs::create_dir(&moved).unwrap();
        let (before, after) = (moved.join("script"), directory.path().join("after/script"));
        fs::rename(&file, &before).unwrap();
        executables.look_up(&before).unwrap();
        fs::rename(&moved, directory.path().join("after")).unwrap();
        assert_eq!(executables.look_up(&after).unwrap().unwrap().resolved, before.as_path(), "nothing shows it");
        assert_eq!(executables.read_again(&after).unwrap().resolved, after.canonicalize().unwrap());
        assert_eq!(executables.look_up(&after).unwrap().unwrap().resolved, after.canonicalize().unwrap());
        fs::rename(&after, &file).unwrap();
        let mut look_up = |file: &Path| executables.look_up(file).unwrap().unwrap().interpreter[0].clone();
        // The same file by two names is two programs.
        fs::hard_link(&file, &other).unwrap();
        assert_eq!([look_up(&other), look_up(&file)], ["/bin/dash"; 2]);
    }
}
