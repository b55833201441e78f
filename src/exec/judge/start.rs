//! Starts an approved program outside the sandbox: what the supervisor sends, and what the hidden command `exec-start`
//! does with it.
//!
//! 1. The program gets the standard streams, working directory, process group, nice value and processors of the process that wanted to execute it, and
//!    exactly the path, arguments and environment that were judged (of PATH, the directories that no command can write). Its user and namespaces are
//!    those of the supervisor, which has checked that they are the same. Its umask and resource limits are those of the supervisor, unless
//!    the other process is outside the sandbox too: then they, and all file descriptors, are those of that process.
//! 2. It gets a filter of its own, so the programs that it executes are judged as well. A set-user-id program, or one
//!    with file capabilities, gets no filter, because that would take its privileges away.
//! 3. Its parent is the supervisor. If the supervisor dies, the program dies too.
//! 4. A text without `#!`, which the kernel cannot execute, is run by the shell that wanted to execute it: bash, else `sh`, as `execvp` does.
use super::{memory::restore_huge_pages, notify::Listener, packet, status::status_field};
use crate::exec::policy::Stream;
use crate::exec::supervise::descriptors::open_descriptors;
use nix::{
    sys::signal::{SigSet, SigmaskHow, sigprocmask},
    unistd::{Pid, getpgid, setpgid},
};
use rustix::{
    fs::{MemfdFlags, getxattr, memfd_create},
    io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd},
    process::{
        Resource, Rlimit, Signal, fchdir, getpriority_process, getrlimit, set_parent_process_death_signal, setpriority_process,
        setrlimit,
    },
    thread::{sched_getaffinity, sched_setaffinity},
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read, Seek, Write},
    os::{
        fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::PermissionsExt,
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The resource limits that are copied, with their names in `/proc/PID/limits`.
const LIMITS: [(Resource, &str); 16] = [
    (Resource::Cpu, "Max cpu time"),
    (Resource::Fsize, "Max file size"),
    (Resource::Data, "Max data size"),
    (Resource::Stack, "Max stack size"),
    (Resource::Core, "Max core file size"),
    (Resource::Rss, "Max resident set"),
    (Resource::Nproc, "Max processes"),
    (Resource::Nofile, "Max open files"),
    (Resource::Memlock, "Max locked memory"),
    (Resource::As, "Max address space"),
    (Resource::Locks, "Max file locks"),
    (Resource::Sigpending, "Max pending signals"),
    (Resource::Msgqueue, "Max msgqueue size"),
    (Resource::Nice, "Max nice priority"),
    (Resource::Rtprio, "Max realtime priority"),
    (Resource::Rttime, "Max realtime timeout"),
];

/// An approved program, as it was judged.
#[derive(Debug)]
pub(super) struct Approved {
    /// The process that wanted to execute it, which is a relay now.
    pub(super) process: i32,
    pub(super) file: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<OsString>,
    pub(super) directory: OwnedFd,
    /// The shell that runs the file if it is a script without `#!`.
    pub(super) shell: String,
    /// If it leaves the sandbox: its standard streams, as they were judged.
    pub(super) streams: Option<Vec<Stream>>,
}

/// How programs that are started differ from the supervisor.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Settings {
    /// Huge pages are off in the supervisor only: see [`restore_huge_pages`].
    pub(super) restore_huge_pages: bool,
    /// The soft limit of open files of a program that leaves the sandbox; `None`: that of the supervisor.
    pub(super) open_files: Option<u64>,
}

/// The message to `exec-start`, with the file descriptors of the texts and of the working directory. Those of the
/// program follow in further messages.
#[derive(Debug, Serialize, Deserialize)]
struct Instructions {
    group: i32,
    umask: Option<u32>,
    shell: String,
    is_judged: bool,
    settings: Settings,
    arguments: usize,
    /// In the order of [`LIMITS`]: the soft and the hard limit; empty: those of this process.
    limits: Vec<Option<(Option<u64>, Option<u64>)>>,
    /// The numbers of the program's file descriptors, in the order in which they come.
    numbers: Vec<RawFd>,
}

/// A program that is being started.
pub(super) struct Starting {
    pub(super) process: Pid,
    /// The socket on which it reports whether it is in the process group, and sends its listener if it is judged.
    pub(super) socket: OwnedFd,
}

/// Starts the program. `descriptors`: the file descriptors of the relay, with their numbers.
pub(super) fn start(
    approved: &Approved,
    descriptors: &[(RawFd, OwnedFd)],
    settings: Settings,
) -> io::Result<Starting> {
    let relay = Pid::from_raw(approved.process);
    let leaves = approved.streams.is_some();
    let umask = || status_field(approved.process, "Umask:").and_then(|mask| u32::from_str_radix(&mask, 8).ok());
    let instructions = Instructions {
        group: getpgid(Some(relay))?.as_raw(),
        umask: (!leaves).then(|| umask().unwrap_or(0o22)),
        shell: approved.shell.clone(),
        is_judged: !has_privileges(&approved.file),
        settings,
        arguments: approved.arguments.len(),
        limits: if leaves { Vec::new() } else { limits_of(approved.process) },
        numbers: descriptors.iter().map(|(number, _)| *number).collect(),
    };
    let texts = [approved.file.as_os_str()].into_iter().chain(approved.arguments.iter().map(OsString::as_os_str));
    let texts = write_texts(texts.chain(approved.environment.iter().map(OsString::as_os_str)))?;
    let (ours, theirs) = packet::pair()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg("exec-start").stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    let process = Pid::from_raw(command.spawn()?.id().cast_signed());
    copy_scheduling(relay, process);
    packet::send(&ours, &instructions, &[texts.as_raw_fd(), approved.directory.as_raw_fd()])?;
    for part in descriptors.chunks(packet::MAX_FDS) {
        let fds: Vec<_> = part.iter().map(|(_, fd)| fd.as_raw_fd()).collect();
        packet::send(&ours, &(), &fds)?;
    }
    Ok(Starting { process, socket: ours })
}

/// The shell that runs a script without `#!` if this thread executes it: bash runs it itself, `execvp` uses `sh`. Only
/// the name of the thread's program is considered, because a command may have written the program.
pub(super) fn shell_of(thread: i32) -> &'static str {
    let program = fs::read_link(format!("/proc/{thread}/exe")).unwrap_or_default();
    match program.ends_with("bash") && Path::new("/bin/bash").exists() {
        true => "/bin/bash",
        false => "/bin/sh",
    }
}

/// Whether the program sets its user or group id, or gets capabilities, when it is executed, which the filter would prevent.
pub(super) fn has_privileges(file: &Path) -> bool {
    let has_capabilities = || getxattr(file, "security.capability", &mut [0_u8; 64][..]).is_ok();
    fs::metadata(file).is_ok_and(|data| data.permissions().mode() & 0o6000 != 0) || has_capabilities()
}

/// The soft and the hard resource limits of another process, in the order of [`LIMITS`]. The outer `None`: unknown; the
/// inner `None`: unlimited.
fn limits_of(process: i32) -> Vec<Option<(Option<u64>, Option<u64>)>> {
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).unwrap_or_default();
    let limit_of = |name: &str| {
        let mut fields = limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
        let mut next = || match fields.next()? {
            "unlimited" => Some(None),
            number => number.parse().ok().map(Some),
        };
        Some((next()?, next()?))
    };
    LIMITS.iter().map(|(_, name)| limit_of(name)).collect()
}

/// Copies the nice value, and the set of processors on which the process may run.
fn copy_scheduling(from: Pid, to: Pid) {
    let [from, to] = [from, to].map(|process| rustix::process::Pid::from_raw(process.as_raw()));
    // Failures are ignored: then the program runs as if the command's shell had started it.
    let _ = getpriority_process(from).and_then(|nice| setpriority_process(to, nice));
    let _ = sched_getaffinity(from).and_then(|processors| sched_setaffinity(to, &processors));
}

/// Writes these texts, each ended by NUL, to a file in memory.
fn write_texts<'a>(texts: impl Iterator<Item = &'a OsStr>) -> io::Result<File> {
    let mut file = File::from(memfd_create("pausewatch", MemfdFlags::CLOEXEC)?);
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
    }
    file.write_all(&bytes)?;
    Ok(file)
}

fn read_texts(file: OwnedFd) -> io::Result<Vec<OsString>> {
    let (mut file, mut bytes) = (File::from(file), Vec::new());
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    bytes.pop();
    Ok(bytes.split(|byte| *byte == 0).map(|text| OsString::from_vec(text.to_vec())).collect())
}

/// Becomes the approved program: the work of `exec-start`.
///
/// # Errors
/// The program was not executed. Standard error may already be that of the program.
pub(crate) fn become_approved() -> io::Result<()> {
    let end = || io::Error::from(io::ErrorKind::UnexpectedEof);
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let (instructions, fds) = packet::receive::<Instructions>(io::stdin())?.ok_or_else(end)?;
    // Our own file descriptors must not have the numbers of the program's.
    let above = instructions.numbers.iter().max().map_or(3, |highest| highest + 1);
    let socket = fcntl_dupfd_cloexec(io::stdin(), above)?;
    let [texts, workdir] = <[OwnedFd; 2]>::try_from(fds).map_err(|_| end())?;
    fchdir(&workdir)?;
    drop(workdir);
    let mut texts = read_texts(texts)?.into_iter();
    let mut given = Vec::new();
    for numbers in instructions.numbers.chunks(packet::MAX_FDS) {
        let ((), fds) = packet::receive(&socket)?.ok_or_else(end)?;
        if fds.len() != numbers.len() {
            return Err(Errno::MFILE.into());
        }
        for fd in fds {
            given.push(fcntl_dupfd_cloexec(&fd, above)?);
        }
    }
    place(&instructions.numbers, &given, above)?;
    drop(given);
    // Fails if the group has no process any more, or belongs to another session.
    let is_in_group = setpgid(Pid::from_raw(0), Pid::from_raw(instructions.group)).is_ok();
    if let Some(umask) = instructions.umask {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
    }
    let file = texts.next().ok_or_else(end)?;
    let arguments: Vec<_> = texts.by_ref().take(instructions.arguments).collect();
    let environment: Vec<_> = texts.collect();
    let listener = instructions.is_judged.then(Listener::install).transpose()?;
    let fds: Vec<_> = listener.iter().map(|listener| listener.as_fd().as_raw_fd()).collect();
    packet::send(&socket, &is_in_group, &fds)?;
    drop(listener);
    if instructions.limits.is_empty() && instructions.settings.open_files.is_some() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: instructions.settings.open_files, maximum });
    }
    for ((resource, _), limit) in LIMITS.iter().zip(instructions.limits) {
        if let Some((current, maximum)) = limit {
            let _ = setrlimit(*resource, Rlimit { current, maximum });
        }
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    let mut arguments = arguments.into_iter();
    let name = arguments.next();
    let mut command = match is_plain_text(file.as_ref()) {
        true => Command::new(instructions.shell),
        false => Command::new(&file),
    };
    match name {
        _ if is_plain_text(file.as_ref()) => command.arg(file),
        Some(name) => command.arg0(name),
        None => &mut command,
    };
    if instructions.settings.restore_huge_pages {
        restore_huge_pages(&mut command);
    }
    command.args(arguments).env_clear();
    for entry in environment {
        let bytes = entry.as_bytes();
        // A name may begin with `=`.
        if let Some(at) = bytes.iter().skip(1).position(|byte| *byte == b'=') {
            command.env(OsStr::from_bytes(&bytes[..=at]), OsStr::from_bytes(&bytes[at + 2..]));
        }
    }
    Err(command.exec())
}

/// Whether the file is a script without a line that names its interpreter.
fn is_plain_text(file: &Path) -> bool {
    let mut start = [0; 128];
    let length = File::open(file).and_then(|mut file| file.read(&mut start)).unwrap_or(0);
    let first_line = start[..length].split(|byte| *byte == b'\n').next().unwrap_or_default();
    length > 0 && !first_line.starts_with(b"#!") && !first_line.contains(&0) && !first_line.starts_with(b"\x7fELF")
}

/// Closes all file descriptors below `above`, and then gives each of the program's its number.
fn place(numbers: &[RawFd], given: &[OwnedFd], above: RawFd) -> io::Result<()> {
    open_descriptors().into_iter().filter(|number| *number < above).for_each(|number| _ = nix::unistd::close(number));
    for (number, fd) in numbers.iter().zip(given) {
        // The result has the lowest free number from there on.
        let placed = fcntl_dupfd_cloexec(fd, *number)?;
        if placed.as_raw_fd() != *number {
            return Err(io::Error::other(format!("the number {number} of a file descriptor is taken")));
        }
        fcntl_setfd(&placed, FdFlags::empty())?;
        let _ = placed.into_raw_fd();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_of_the_kernel_is_copied() {
        let limits = fs::read_to_string("/proc/self/limits").expect("Linux has it");
        for line in limits.lines().filter(|line| line.starts_with("Max ")) {
            assert!(LIMITS.iter().any(|(_, name)| line.starts_with(name)), "{line}");
        }
        assert!(limits_of(std::process::id().cast_signed()).iter().all(Option::is_some), "{limits}");
    }
}
