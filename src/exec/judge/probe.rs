//! Whether programs can be judged on this system: tried once, by a judged command that is refused a program.
use super::{
    link::connect,
    message::{Report, Verdict},
    packet,
};
use crate::exec::policy::{Action, Reach};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    path::Path,
    process::{Child, Command, Stdio},
};

/// How long each step of the attempt may take.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// The file name of the program that the attempt executes: `/proc/self/exe`.
const NAME: &str = "exe";
/// The status of `wait` of a process that was refused: exit code 1.
const REFUSED: i32 = 1 << 8;

/// Tries whether the execs of a command can be judged. `program`: this program. Takes about 10 ms.
///
/// # Errors
/// Why not, in words for a person: it completes "nested programs are not judged: …".
pub(crate) fn probe(program: &Path) -> Result<(), String> {
    let cannot = |error: io::Error| format!("the attempt failed: {error}");
    let null = File::options().read(true).write(true).open("/dev/null").map_err(cannot)?;
    let (ours, theirs) = connect(&null).map_err(cannot)?;
    let mut command = Command::new(program);
    command.args(["exec-supervisor", "--parent", &std::process::id().to_string(), "--name", NAME]);
    // The first program of a command is not judged; this one executes another.
    command.args(["--", "--"]).arg(program).args(["exec-child", "--parent", "0", "--", "/proc/self/exe", "--version"]);
    command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(cannot)?;
    drop(command);
    let mut attempt = Attempt { child, socket: ours };
    attempt.run().map_err(cannot)?
}

struct Attempt {
    child: Child,
    socket: OwnedFd,
}

impl Attempt {
    fn run(&mut self) -> io::Result<Result<(), String>> {
        let mut note = None;
        loop {
            match self.report()? {
                Report::Asks { id, .. } => {
                    let action = Action::Deny { reason: "a test".to_owned() };
                    packet::send(&self.socket, &Verdict { id, action, reach: Reach::default() }, &[])?;
                }
                Report::Ended { status: REFUSED } => return Ok(Ok(())),
                Report::Ended { .. } => {
                    let why = "the kernel does not support seccomp user notification, or this process may not use it or ptrace";
                    return Ok(Err(note.unwrap_or_else(|| why.to_owned())));
                }
                Report::Noted(text) => note = Some(text),
                Report::Started { .. } | Report::Withdrawn { .. } => {}
            }
        }
    }

    fn report(&self) -> io::Result<Report> {
        if poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&PATIENCE))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let report = packet::receive(&self.socket)?.map(|(report, _)| report);
        report.ok_or_else(|| io::Error::other("this system cannot start the supervisor of a command"))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
