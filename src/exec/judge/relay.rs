//! The relay: our program in the place of one that was refused or approved, in the same process, with the same file descriptors.
//!
//! 1. It recognizes that it is a relay by the file descriptor that it was executed by (`AT_EXECFN`), and asks its
//!    supervisor what to do.
//! 2. Refused: it prints the reason and exits with 1.
//! 3. Approved: it hands its file descriptors to the supervisor, which starts the program, and closes its own
//!    copies. It forwards the signals that it gets. Signals of the terminal reach the program directly if the
//!    program is in the same process group; it cannot join a group of another session. The supervisor stops and
//!    continues the relay together with the program, and the relay ends as the program does. If the relay is
//!    killed, the supervisor kills the program.
use super::packet;
use crate::exec::supervise::{Signal, descriptors::{open_descriptors, replace_by_null}, die_of, ignored_at_start, was_closed};
use nix::sys::{
    signal::{SigSet, SigmaskHow, sigprocmask},
    signalfd::{SfdFlags, SignalFd},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    net::{
        SocketType,
        sockopt::{socket_peercred, socket_type},
    },
};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::{self, Write},
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
};

/// From the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The program may not run.
    Refuse(String),
    /// Hand over your file descriptors.
    Relay,
    /// The program has started. `in_group`: it is in the process group, and gets signals of the terminal by itself.
    Started { in_group: bool },
    /// The program has ended with this code, or after this signal.
    Exited(i32),
    Killed(i32),
}

/// To the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Relayed {
    /// The numbers of file descriptors, which come with the message, as many as fit in one. `last`: no more follow.
    Descriptors { numbers: Vec<RawFd>, last: bool },
    /// This signal was sent to the relay.
    Signal(i32),
}

/// The reason of a program that nobody judges any more.
pub(super) const NOT_JUDGED: &str = "the program cannot be judged: the process that applies the rules has ended";
/// The exit code if the supervisor has ended, or the program cannot be started.
const CANNOT_RUN: u8 = 126;
/// `si_code` of signals that the kernel sends, such as those of the terminal, and of timers.
const SI_KERNEL: i32 = 0x80;
/// The signals of a terminal. The kernel sends others for a timer that was set before the program was executed.
const OF_TERMINAL: [i32; 8] = [
    nix::libc::SIGHUP,
    nix::libc::SIGINT,
    nix::libc::SIGQUIT,
    nix::libc::SIGTSTP,
    nix::libc::SIGTTIN,
    nix::libc::SIGTTOU,
    nix::libc::SIGCONT,
    nix::libc::SIGWINCH,
];

/// The file descriptor by which this process was executed, if it is a relay.
fn descriptor() -> Option<RawFd> {
    let descriptor = rustix::param::linux_execfn().to_str().ok()?.strip_prefix("/dev/fd/")?.parse().ok()?;
    // If somebody else executed `pausewatch` by a file descriptor, the next number is not that of a socket.
    let link = fs::read_link(format!("/proc/self/fd/{}", descriptor + 1)).ok()?;
    link.to_str()?.starts_with("socket:").then_some(descriptor)
}

/// Whether this process is a relay; if so, returns its exit code after it has done its work. Call it before anything else in `main`.
pub(crate) fn run_if_relay() -> Option<u8> {
    let socket = adopt(descriptor()? + 1).ok()?;
    if socket_type(&socket) != Ok(SocketType::SEQPACKET) {
        return None;
    }
    let code = match packet::receive(&socket) {
        Ok(Some((Order::Refuse(reason), _))) => {
            let _ = writeln!(io::stderr(), "pausewatch: denied: {reason}");
            1
        }
        Ok(Some((Order::Relay, _))) => relay(socket).unwrap_or_else(|error| {
            let _ = writeln!(io::stderr(), "pausewatch: the approved program cannot be started: {error}");
            CANNOT_RUN
        }),
        _ => {
            let _ = writeln!(io::stderr(), "pausewatch: {NOT_JUDGED}");
            CANNOT_RUN
        }
    };
    Some(code)
}

/// An owned file descriptor from a number, without unsafe code: it is sent to ourselves.
fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    let (ours, theirs) = packet::pair()?;
    packet::send(&ours, &(), &[number])?;
    let received = packet::receive::<()>(&theirs)?.and_then(|((), mut fds)| fds.pop());
    nix::unistd::close(number)?;
    received.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn relay(socket: OwnedFd) -> io::Result<u8> {
    let ignored = ignored_at_start();
    let all = SigSet::all();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&all), None)?;
    let signals = SignalFd::with_flags(&all, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let supervisor = socket_peercred(&socket)?.pid.as_raw_pid().cast_unsigned();
    let own = [socket.as_raw_fd(), signals.as_fd().as_raw_fd()];
    let is_given = |number: &RawFd| !own.contains(number) && !was_closed(*number);
    let given: Vec<_> = open_descriptors().into_iter().filter(is_given).collect();
    let mut parts = given.chunks(packet::MAX_FDS).peekable();
    while let Some(numbers) = parts.next() {
        let message = Relayed::Descriptors { numbers: numbers.to_vec(), last: parts.peek().is_none() };
        packet::send(&socket, &message, numbers)?;
    }
    // A reader waiting for the end of a pipe waits only for the program.
    replace_by_null(&given)?;
    let _ = rustix::process::chdir("/");
    // Signals of the terminal that arrived before the program has started.
    let (mut early, mut is_in_group) = (Some(Vec::new()), false);
    loop {
        let mut polled = [PollFd::new(&socket, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has_order = !polled[0].revents().is_empty();
        while let Ok(Some(signal)) = signals.read_signal() {
            let number = i32::try_from(signal.ssi_signo).unwrap_or(0);
            // SIGCONT continues a process even if the process ignores it.
            let is_ignored =
                (1..32).contains(&number) && ignored & (1 << (number - 1)) != 0 && number != nix::libc::SIGCONT;
            // The children are those of the program that this process executed before.
            let is_of_child = number == nix::libc::SIGCHLD && signal.ssi_code > 0;
            // The supervisor continues this process when the program continues.
            if is_ignored || is_of_child || signal.ssi_pid == supervisor {
                continue;
            }
            let is_of_terminal = signal.ssi_code == SI_KERNEL && OF_TERMINAL.contains(&number);
            match &mut early {
                Some(early) if is_of_terminal => early.push(number),
                None if is_of_terminal && is_in_group => {}
                _ => packet::send(&socket, &Relayed::Signal(number), &[])?,
            }
        }
        if !has_order {
            continue;
        }
        match packet::receive(&socket)? {
            Some((Order::Started { in_group }, _)) => {
                is_in_group = in_group;
                for number in early.take().unwrap_or_default() {
                    packet::send(&socket, &Relayed::Signal(number), &[])?;
                }
            }
            Some((Order::Exited(code), _)) => return Ok(u8::try_from(code).unwrap_or(CANNOT_RUN)),
            Some((Order::Killed(number), _)) => return Ok(die(number)),
            Some((Order::Refuse(_) | Order::Relay, _)) | None => return Ok(CANNOT_RUN),
        }
    }
}

/// Ends this process by a signal, or returns the corresponding exit code if that is impossible.
fn die(number: i32) -> u8 {
    // The core dump of the program is of interest, not that of this process.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    if let Some(signal) = Signal::from_raw(number) {
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
        die_of(signal);
    }
    u8::try_from(128 + number).unwrap_or(CANNOT_RUN)
}
