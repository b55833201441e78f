//! A program in its own terminal, and what the terminal shows.
//!
//! 1. The program is a job of a shell, and the terminal is its controlling terminal: a new size, Ctrl-C and Ctrl-Z are
//!    signals. The shell outlives it, because the end of a session's first process resets the terminal.
//! 2. An escape sequence that this terminal does not know is a failure, because nothing else would check it.
use crate::support::PATIENCE;
use rustix::{
    process::{Signal, kill_process, kill_process_group},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcgetpgrp, tcsetwinsize},
};
use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Instant,
};

/// Runs the program, prints how it ended or that it was stopped, and accepts commands such as `fg`.
const SHELL: &str =
    r#"trap : INT QUIT HUP TERM; "$@"; echo "ended $?"; while read -r line; do $line; echo "ended $?"; done"#;

pub(crate) struct Terminal {
    ours: File,
    theirs: File,
    bytes: mpsc::Receiver<Vec<u8>>,
    shell: Child,
    pub(crate) screen: Screen,
}

impl Terminal {
    pub(crate) fn start(command: &Command, columns: u16, lines: u16) -> Self {
        Self::under(&["-m"], command, columns, lines)
    }

    /// The shell has no job control, like one that runs a script: a stopped program cannot be continued.
    pub(crate) fn start_without_jobs(command: &Command, columns: u16, lines: u16) -> Self {
        Self::under(&[], command, columns, lines)
    }

    fn under(options: &[&str], command: &Command, columns: u16, lines: u16) -> Self {
        // The programs of other tests must not inherit it: the terminal would not hang up.
        #[cfg(target_os = "linux")]
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let ours = openpt(flags).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let mut setsid = Command::new("setsid");
        setsid.args(["--ctty", "bash"]).args(options).args(["-c", SHELL, "bash"]);
        setsid.arg(command.get_program()).args(command.get_args());
        setsid.env("TERM", "xterm");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => setsid.env(name, value),
                None => setsid.env_remove(name),
            };
        }
        let end = || Stdio::from(theirs.try_clone().unwrap());
        tcsetwinsize(&theirs, size(columns, lines)).unwrap();
        let shell = setsid.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let ours = File::from(ours);
        let (sender, bytes) = mpsc::channel();
        let mut reader = ours.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { ours, theirs, bytes, shell, screen: Screen::new(columns, lines) }
    }

    /// Waits until the screen shows what `is_shown` looks for.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, what: &str, is_shown: impl Fn(&Screen) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_shown(&self.screen) {
            match self.bytes.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => bytes.into_iter().for_each(|byte| self.screen.take(byte)),
                Err(error) => panic!("no {what}: {error}; the screen shows\n{}", self.screen.text()),
            }
        }
    }

    #[track_caller]
    pub(crate) fn wait_for_text(&mut self, text: &str) {
        self.wait_for(text, |screen| screen.text().contains(text));
    }

    /// Waits until a process group whose leader has this name has the terminal. Linux only.
    #[track_caller]
    pub(crate) fn wait_for_foreground(&self, leader: &str) {
        let end = Instant::now() + PATIENCE;
        let name = || {
            let group = tcgetpgrp(&self.ours).ok()?;
            std::fs::read_to_string(format!("/proc/{}/comm", group.as_raw_pid())).ok()
        };
        while name().is_none_or(|name| name.trim_end() != leader) {
            assert!(Instant::now() < end, "{leader} has never had the terminal, but {:?}", name());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    pub(crate) fn resize(&mut self, columns: u16, lines: u16) {
        self.screen.resize(columns, lines);
        tcsetwinsize(&self.theirs, size(columns, lines)).unwrap();
    }

    pub(crate) fn write(&mut self, keys: impl AsRef<[u8]>) {
        self.ours.write_all(keys.as_ref()).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(tcgetpgrp(&self.ours).unwrap(), signal).unwrap();
    }

    /// Whether the terminal has its usual modes: it echoes input, and passes it to programs line by line.
    pub(crate) fn is_usual(&self) -> bool {
        let usual = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        tcgetattr(&self.theirs).unwrap().local_modes.contains(usual)
    }

    /// Waits until the program has ended with this exit code, or was stopped by 128 and a signal.
    #[track_caller]
    pub(crate) fn wait_for_end(&mut self, code: i32) {
        self.wait_for_text(&format!("ended {code}"));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The program too, which may survive its terminal.
        if let Ok(group) = tcgetpgrp(&self.ours) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

fn size(columns: u16, lines: u16) -> Winsize {
    Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// The lines of a terminal, with the features that a table needs.
pub(crate) struct Screen {
    lines: Vec<Vec<char>>,
    columns: usize,
    row: usize,
    column: usize,
    pending: Vec<u8>,
    pub(crate) is_other: bool,
    pub(crate) has_cursor: bool,
    pub(crate) wraps: bool,
    pub(crate) has_colors: bool,
}

impl Screen {
    fn new(columns: u16, lines: u16) -> Self {
        let mut screen = Self {
            lines: Vec::new(),
            columns: 0,
            row: 0,
            column: 0,
            pending: Vec::new(),
            is_other: false,
            has_cursor: true,
            wraps: true,
            has_colors: false,
        };
        screen.resize(columns, lines);
        screen
    }

    fn resize(&mut self, columns: u16, lines: u16) {
        self.columns = columns.into();
        self.lines = vec![vec![' '; columns.into()]; lines.into()];
        (self.row, self.column) = (0, 0);
    }

    pub(crate) fn text(&self) -> String {
        let line = |line: &Vec<char>| line.iter().collect::<String>().trim_end().to_owned() + "\n";
        self.lines.iter().map(line).collect::<String>().trim_end().to_owned()
    }

    fn take(&mut self, byte: u8) {
        self.pending.push(byte);
        match &self.pending[..] {
            [0x1b] | [0x1b, b'['] => {}
            [0x1b, b'[', .., b'0'..=b'9' | b';' | b'?'] => {}
            [0x1b, b'[', ..] => {
                let sequence = String::from_utf8(std::mem::take(&mut self.pending)).unwrap();
                self.control(&sequence[2..]);
            }
            [0x1b, ..] => panic!("unknown: {:?}", self.pending),
            bytes => {
                if let Ok(text) = std::str::from_utf8(bytes) {
                    let c = text.chars().next().unwrap();
                    self.pending.clear();
                    self.put(c);
                }
            }
        }
    }

    fn control(&mut self, sequence: &str) {
        match sequence {
            "H" => (self.row, self.column) = (0, 0),
            "K" => self.lines[self.row][self.column..].fill(' '),
            "J" => {
                self.lines[self.row][self.column..].fill(' ');
                self.lines[self.row + 1..].iter_mut().for_each(|line| line.fill(' '));
            }
            "?1049h" | "?1049l" => {
                self.is_other = sequence.ends_with('h');
                self.lines.iter_mut().for_each(|line| line.fill(' '));
                (self.row, self.column) = (0, 0);
            }
            "?25h" | "?25l" => self.has_cursor = sequence.ends_with('h'),
            "?7h" | "?7l" => self.wraps = sequence.ends_with('h'),
            "0m" => {}
            color if color.ends_with('m') => self.has_colors = true,
            other => panic!("unknown: {other:?}"),
        }
    }

    fn put(&mut self, c: char) {
        match c {
            '\r' => self.column = 0,
            '\n' if self.row + 1 < self.lines.len() => self.row += 1,
            '\n' => {
                self.lines.remove(0);
                self.lines.push(vec![' '; self.columns]);
            }
            c => {
                assert!(!c.is_control(), "{c:?}");
                self.lines[self.row][self.column] = c;
                // Like a terminal that does not wrap, it stays in the last column.
                self.column = (self.column + 1).min(self.columns - 1);
            }
        }
    }
}
