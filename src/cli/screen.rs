//! The whole terminal, for a command that redraws it in place.
//!
//! 1. The terminal is restored when this is dropped, and before a panic is reported.
//! 2. A terminal that accepts no output, such as a stopped one, delays neither the command nor its end.
//! 3. Typed characters are not shown.
use crate::server::background_writer::{BackgroundWriter, Sink};
use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use std::{
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, OwnedFd},
    panic,
    sync::{Arc, Mutex, PoisonError, TryLockError},
    time::Duration,
};

/// Switches to the alternate screen, hides the cursor, and cuts lines instead of wrapping them.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
/// The size of the buffer, in bytes: more than a screen has.
const BUFFER: usize = 1 << 20;
/// How long the end waits for the terminal.
const WRITE_TIMEOUT: Duration = Duration::from_millis(500);
/// The size of a terminal that does not report its own.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// A terminal that shows what this draws.
pub(crate) struct Screen {
    terminal: OwnedFd,
    shown: Arc<Mutex<Option<Shown>>>,
}

/// Everything that restoring the terminal needs.
struct Shown {
    terminal: OwnedFd,
    writer: BackgroundWriter,
    modes: Termios,
}

impl Screen {
    /// Whether the terminal can be redrawn in place.
    pub(crate) fn is_supported(terminal: impl AsFd) -> bool {
        isatty(terminal) && std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb")
    }

    /// Shows an empty screen.
    pub(crate) fn enter(terminal: OwnedFd) -> io::Result<Self> {
        let mut screen = Self { terminal, shown: Arc::default() };
        screen.resume()?;
        let shown = Arc::downgrade(&screen.shown);
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if let Some(shown) = shown.upgrade() {
                match shown.try_lock() {
                    Ok(mut shown) => drop(shown.take()),
                    Err(TryLockError::Poisoned(shown)) => drop(shown.into_inner().take()),
                    // This thread may have it.
                    Err(TryLockError::WouldBlock) => {}
                }
            }
            report(info);
        }));
        Ok(screen)
    }

    /// Shows an empty screen again, after [`Screen::leave`].
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        let modes = tcgetattr(&self.terminal)?;
        let mut ours = modes.clone();
        ours.local_modes -= LocalModes::ECHO | LocalModes::ICANON;
        let terminal = self.terminal.try_clone()?;
        let writer = BackgroundWriter::start("screen", BUFFER, Terminal(File::from(self.terminal.try_clone()?)))?;
        tcsetattr(&terminal, OptionalActions::Now, &ours)?;
        writer.push(ENTER.as_bytes());
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(Shown { terminal, writer, modes });
        Ok(())
    }

    /// Restores the terminal.
    pub(crate) fn leave(&mut self) {
        drop(self.shown.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Columns and lines; `None`: the terminal is gone.
    pub(crate) fn size(&self) -> Option<(u16, u16)> {
        let size = tcgetwinsize(&self.terminal).ok()?;
        Some(if size.ws_col == 0 || size.ws_row == 0 { DEFAULT_SIZE } else { (size.ws_col, size.ws_row) })
    }

    /// Draws, from the upper left corner. `false`: the terminal has not accepted the last drawing yet.
    pub(crate) fn draw(&self, drawing: &str) -> bool {
        match &*self.shown.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Shown { writer, .. }) => writer.is_empty() && writer.push(drawing.as_bytes()),
            None => true,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // The modes first: this does not wait for a stopped terminal.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.modes);
        self.writer.push(LEAVE.as_bytes());
        self.writer.wait_until_written(WRITE_TIMEOUT);
    }
}

struct Terminal(File);

impl Sink for Terminal {
    fn write(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn retries_failed_writes(&self) -> bool {
        false
    }
}

#[cfg(all(test, feature = "exec-server"))]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::{io::Read, process::Command};

    const ALONE: &str = "PAUSEWATCH_TEST_ALONE";

    /// Without the panic hook, the message of a panic would be on the alternate screen, and would vanish with it.
    #[test]
    fn a_panic_is_reported_on_the_restored_terminal() {
        // In a process of its own: a panic of any test that runs beside it would restore the terminal.
        if std::env::var_os(ALONE).is_none() {
            let name = "cli::screen::tests::a_panic_is_reported_on_the_restored_terminal";
            let mut alone = Command::new(std::env::current_exe().unwrap());
            let output = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
            let printed =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
            return;
        }
        #[cfg(target_os = "linux")]
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let ours = openpt(flags).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let modes = |terminal: &File| tcgetattr(terminal).unwrap().local_modes;
        let before = modes(&theirs);
        let usual = panic::take_hook();
        let (terminal_copy, report) = (theirs.try_clone().unwrap(), Arc::new(Mutex::new(None)));
        let reported = report.clone();
        panic::set_hook(Box::new(move |info| match info.payload().downcast_ref::<&str>() {
            Some(&"of the test") => {
                *reported.lock().unwrap() = Some(modes(&terminal_copy));
                (&terminal_copy).write_all(b"reported").unwrap();
            }
            _ => usual(info),
        }));
        let terminal = OwnedFd::from(theirs.try_clone().unwrap());
        let result = panic::catch_unwind(|| {
            let screen = Screen::enter(terminal).unwrap();
            assert_ne!(modes(&theirs), before);
            while !screen.draw("drawn") {
                std::thread::yield_now();
            }
            panic!("of the test");
        });
        assert!(result.is_err());
        assert_eq!(*report.lock().unwrap(), Some(before));
        // A read gives what the kernel has passed on so far.
        (&theirs).write_all(b"end").unwrap();
        let (mut ours, mut written) = (File::from(ours), Vec::new());
        while !written.ends_with(b"end") {
            let mut buffer = [0; 256];
            let length = ours.read(&mut buffer).unwrap();
            written.extend_from_slice(&buffer[..length]);
        }
        assert_eq!(String::from_utf8_lossy(&written), format!("{ENTER}drawn{LEAVE}reportedend"));
    }
}
