//! A shell that runs the commands of a page.
//!
//! 1. It is isolated: it has its own directory, home and, where the system allows it (`unshare`), network, so that all
//!    pages can use port 7420. Otherwise pages run one after another.
//! 2. What it started ends with it. A variable in the environment marks processes that have left the process group.
//! 3. Nothing waits for ever: a command has [`PATIENCE`].
use crate::tools;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::Duration;

/// The maximum duration of a command on a page, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
const MARK: &str = "DOCS_SESSION";
/// The file for messages of the shell itself, for example about jobs that were killed.
const SHELL_SAYS: &str = "shell";
/// The default port of `serve`.
const PORT: u16 = 7420;
/// The parts of the repository that pages use, by the same names.
const FROM_THE_REPOSITORY: [&str; 3] = ["examples", "deploy", "clients/python"];

pub(crate) struct Session {
    shell: Child,
    to: ChildStdin,
    ended: mpsc::Receiver<String>,
    commands: usize,
    root: tempfile::TempDir,
    _alone: Option<MutexGuard<'static, ()>>,
}

/// How a command ended, and the file of its output, which may still grow.
pub(crate) struct Ran {
    pub(crate) status: i32,
    output: PathBuf,
    noise: String,
}

impl Ran {
    /// Its output so far, without the shell's messages about jobs that ended by a signal.
    pub(crate) fn printed(&self) -> String {
        let bytes = std::fs::read(&self.output).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        text.lines().filter(|line| !line.starts_with(&self.noise)).map(|line| format!("{line}\n")).collect()
    }
}

impl Session {
    /// # Errors
    /// A session is not possible here, for this reason.
    pub(crate) fn start() -> Result<Self, String> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let alone = (!has_own_network()).then(|| ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
        if alone.is_some() && std::net::TcpListener::bind(("127.0.0.1", PORT)).is_err() {
            return Err(format!("port {PORT} is taken, and `unshare --net` is not allowed here"));
        }
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let path = root.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let (work, home, bin, _) = (place("work"), place("home"), place("bin"), place("commands"));
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pausewatch"), bin.join("pausewatch")).unwrap();
        for name in FROM_THE_REPOSITORY {
            copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join(name), &work.join(name));
        }
        let mut command = match alone {
            Some(_) => Command::new("bash"),
            None => {
                let mut command = Command::new("unshare");
                command.args(["--map-root-user", "--net", "bash", "-c", "ip link set lo up && exec bash"]);
                command
            }
        };
        let ours = |name: &str| {
            ["PAUSEWATCH_", "XDG_", "CARGO", "RUST", "CODEX_", "CLAUDE_"].iter().any(|prefix| name.starts_with(prefix))
        };
        for (name, _) in std::env::vars_os().filter(|(name, _)| ours(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        let mut shell = command
            .envs([("TZ", "UTC"), ("LC_ALL", "C.UTF-8"), ("TERM", "dumb")])
            .envs(tools::environment(&bin))
            .env("HOME", home)
            // For examples/story, which would otherwise build one.
            .env("PAUSEWATCH", bin.join("pausewatch"))
            .env(MARK, root.path())
            .current_dir(work)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(root.path().join(SHELL_SAYS)).unwrap())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("no bash: {error}"))?;
        let (to, out) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        let (tell, ended) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
        });
        Ok(Self { shell, to, ended, commands: 0, root, _alone: alone })
    }

    /// Runs a command, and waits until the shell is ready for the next one.
    ///
    /// # Errors
    /// It does not end, or it ended the shell.
    pub(crate) fn run(&mut self, command: &str) -> Result<Ran, String> {
        self.commands += 1;
        let file = |end: &str| self.root.path().join("commands").join(format!("{}{end}", self.commands));
        let (text, output) = (file(""), file(".out"));
        std::fs::write(&text, format!("{command}\n")).unwrap();
        let (source, into) = (text.display(), output.display());
        // Sourced, so that variables, directories and jobs persist; the last line passes `$?` to the next command.
        let line = format!(". {source} >{into} 2>&1 </dev/null; __=$?; echo $__; (exit $__)\n");
        let noise = format!("{source}: line ");
        let ended = self.to.write_all(line.as_bytes()).map_err(|_| mpsc::RecvTimeoutError::Disconnected);
        let printed = || std::fs::read_to_string(&output).unwrap_or_default();
        match ended.and_then(|()| self.ended.recv_timeout(PATIENCE)) {
            Ok(status) => Ok(Ran { status: status.parse().unwrap(), output, noise }),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                Err(format!("does not end within {PATIENCE:?}; so far it printed:\n{}", printed()))
            }
            Err(_) => {
                let shell = std::fs::read_to_string(self.root.path().join(SHELL_SAYS)).unwrap_or_default();
                Err(format!("ended the shell; it printed:\n{}\nand the shell:\n{shell}", printed()))
            }
        }
    }

    /// Writes a file from the page.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.root.path().join("work").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.shell);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.shell.wait();
        let mark = format!("{MARK}={}", self.root.path().display());
        while !marked(&mark).is_empty() {
            for process in marked(&mark) {
                let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
            }
            std::thread::yield_now();
        }
    }
}

/// The running processes that have this mark in their environment.
fn marked(mark: &str) -> Vec<rustix::process::Pid> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let has_it = |path: &Path| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let found = processes.filter(|process| has_it(&process.path()));
    found.filter_map(|process| rustix::process::Pid::from_raw(process.file_name().to_str()?.parse().ok()?)).collect()
}

fn has_own_network() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let mut tried = Command::new("unshare");
        tried.args(["--map-root-user", "--net", "ip", "link", "set", "lo", "up"]).stderr(Stdio::null());
        tried.status().is_ok_and(|status| status.success())
    })
}

/// Pages change only a copy. Build results of other programs are left out.
fn copy(from: &Path, to: &Path) {
    let built = [".venv", "__pycache__", "node_modules", "target"];
    if !from.exists() || built.iter().any(|name| from.ends_with(name)) {
        return;
    }
    if from.is_dir() {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().flatten() {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        std::fs::copy(from, to).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skipped::skipped;

    fn session() -> Option<Session> {
        Session::start().map_err(|reason| skipped("sessions", reason)).ok()
    }

    #[test]
    fn a_page_is_typed_into_one_shell() {
        let Some(mut session) = session() else { return };
        let mut run = |command: &str| session.run(command).unwrap();
        run("here=1; mkdir d; cd d; f() { return 7; }");
        assert_eq!(run("f").status, 7);
        assert_eq!(run("echo $? $here; basename $PWD").printed(), "7 1\nd\n");
        assert_eq!(run("cat; echo ended").printed(), "ended\n", "a command must have no standard input");
        assert_eq!(run("sleep 600 & kill -9 $!; wait $!").status, 137);
        assert_eq!(run("true").printed(), "", "messages of the shell are not output of the command");
        assert_eq!(run("env | grep -c '^PAUSEWATCH_'").printed(), "0\n");
        assert!(session.run("exit 3").is_err_and(|why| why.contains("ended the shell")));
    }

    #[test]
    fn processes_of_a_page_end_with_it() {
        let Some(mut session) = session() else { return };
        let process = session.run("setsid sleep 600 & echo $!").unwrap().printed();
        let state = format!("/proc/{}/stat", process.trim());
        let lives = || std::fs::read_to_string(&state).is_ok_and(|stat| !stat.contains(") Z "));
        assert!(lives() || !Path::new("/proc/self/stat").exists());
        drop(session);
        assert!(!lives());
    }

    #[test]
    fn pages_may_listen_on_the_same_port() {
        let Some(mut one) = session() else { return };
        if !has_own_network() {
            return skipped("namespaces", "a page cannot have its own network");
        }
        let mut two = Session::start().unwrap();
        for session in [&mut one, &mut two] {
            let serve = session.run("pausewatch serve --store memory >>listening &").unwrap();
            assert_eq!(serve.status, 0);
            session.run("until grep -q listening listening; do sleep 0.05; done").unwrap();
            assert_eq!(session.run("pausewatch list").unwrap().printed(), "No thread is paused.\n");
        }
    }
}
