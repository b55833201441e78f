//! Makes a thread that waits in `execve` execute our own program, as a relay, with the arguments and the environment of its call.
//!
//! 1. Two file descriptors are added to the process: our program as F, closed on exec, and the relay's socket as F + 1.
//! 2. ptrace stops the thread as it returns from its call, sets its registers to
//!    `execveat(F, "", argv, envp, AT_EMPTY_PATH)`, and lets it continue.
//!    No memory is written, because it may be shared with other processes (`vfork`).
//!    If a signal with a handler is pending, the handler runs first, as it would just before any call.
//! 3. The new call is a notification like any other, which the supervisor lets continue.
use super::{
    filter::Interface,
    notify::{Call, Listener},
    packet,
    status::status_field,
    view::has_other_root,
    waiting::{Addresses, empty_text},
};
use nix::{
    libc::user_regs_struct,
    sys::{
        ptrace,
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::Pid,
};
use rustix::io::Errno;
use std::{
    collections::HashSet,
    fs::{self, File},
    io,
    os::fd::{AsFd, OwnedFd, RawFd},
};

const AT_EMPTY_PATH: u64 = 0x1000;
/// The stop that PTRACE_INTERRUPT causes: PTRACE_EVENT_STOP.
const INTERRUPTED: i32 = 128;

/// A thread that is about to execute our program.
pub(super) struct Redirected {
    /// The supervisor's end of the relay's socket.
    pub(super) socket: OwnedFd,
    /// F.
    pub(super) descriptor: RawFd,
}

/// Makes the thread that waits in `call` execute `program` instead.
///
/// # Errors
/// The call still waits, or has ended.
pub(super) fn redirect(
    listener: &Listener,
    call: &Call,
    addresses: &Addresses,
    program: &File,
) -> io::Result<Redirected> {
    let thread = call.thread;
    if has_other_root(thread)? {
        return Err(io::Error::other("it has another root directory"));
    }
    let descriptor = free_pair(thread)?;
    let empty = empty_text(call, addresses)?;
    let (ours, theirs) = packet::pair()?;
    // Before it is traced: the process may have reached its limit of descriptors.
    listener.add_fd(call.id, program.as_fd(), descriptor, true)?;
    listener.add_fd(call.id, theirs.as_fd(), descriptor + 1, false)?;
    let traced = Pid::from_raw(thread);
    ptrace::seize(traced, ptrace::Options::empty()).map_err(|error| match error {
        nix::Error::EPERM => io::Error::other("another process traces it, or this system forbids ptrace"),
        error => error.into(),
    })?;
    let redirected = (|| {
        ptrace::interrupt(traced)?;
        match listener.fail(call.id, Errno::INTR) {
            // Before Linux 5.19, the interruption has ended the call.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => {}
            answered => answered?,
        }
        // If it was killed instead, the supervisor's `wait` must see its end: the thread may be the shell.
        let stop = WaitPidFlag::WSTOPPED | WaitPidFlag::__WALL;
        match waitid(Id::Pid(traced), stop | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)? {
            WaitStatus::PtraceEvent(_, _, INTERRUPTED) => _ = waitid(Id::Pid(traced), stop | WaitPidFlag::WNOHANG)?,
            other => return Err(io::Error::other(format!("it did not stop: {other:?}"))),
        }
        let path = [u64::try_from(descriptor).expect("it is a file descriptor"), empty];
        set_registers(traced, call, [path[0], path[1], addresses.arguments, addresses.environment, AT_EMPTY_PATH])
    })();
    let detached = ptrace::detach(traced, None);
    redirected?;
    detached?;
    Ok(Redirected { socket: ours, descriptor })
}

/// Whether a signal that ends most programs waits for the thread to handle it. The thread cannot, while its call waits.
pub(super) fn has_ending_signal(thread: i32) -> bool {
    // HUP, INT, QUIT, TERM.
    const ENDING: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 14;
    let signals = |name| status_field(thread, name).and_then(|mask| u64::from_str_radix(&mask, 16).ok()).unwrap_or(0);
    (signals("SigPnd:") | signals("ShdPnd:")) & !signals("SigBlk:") & ENDING != 0
}

/// A free number whose successor is free too.
fn free_pair(thread: i32) -> io::Result<RawFd> {
    let entries = fs::read_dir(format!("/proc/{thread}/fd"))?.flatten();
    let taken: HashSet<RawFd> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let free = (3..RawFd::MAX).find(|number| !taken.contains(number) && !taken.contains(&(number + 1)));
    free.ok_or_else(|| Errno::MFILE.into())
}

/// Sets the registers as if the thread were about to call `execveat` with these arguments, by the instruction that made
/// `call`.
fn set_registers(thread: Pid, call: &Call, arguments: [u64; 5]) -> io::Result<()> {
    let interface = Interface::of(call.architecture).ok_or(Errno::NOSYS)?;
    let mut registers = ptrace::getregs(thread)?;
    prepare(&mut registers, interface, call.instruction, arguments)?;
    Ok(ptrace::setregs(thread, registers)?)
}

/// `instruction`: the address after the one that made the call.
#[cfg(target_arch = "x86_64")]
fn prepare(
    registers: &mut user_regs_struct,
    interface: &Interface,
    instruction: u64,
    arguments: [u64; 5],
) -> io::Result<()> {
    // No call is to be restarted.
    registers.orig_rax = u64::MAX;
    registers.rax = interface.execveat.into();
    // `syscall`, `int 0x80` and `sysenter` have two bytes each.
    registers.rip = instruction - 2;
    if interface.pointer == 8 {
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8] = arguments;
    } else {
        [registers.rbx, registers.rcx, registers.rdx, registers.rsi, registers.rdi] = arguments;
    }
    Ok(())
}

#[cfg(target_arch = "aarch64")]
fn prepare(
    registers: &mut user_regs_struct,
    interface: &Interface,
    instruction: u64,
    arguments: [u64; 5],
) -> io::Result<()> {
    // Programs for 32-bit Arm, whose registers have another layout, are not redirected.
    if interface.pointer != 8 {
        return Err(Errno::NOSYS.into());
    }
    registers.regs[..5].copy_from_slice(&arguments);
    registers.regs[8] = interface.execveat.into();
    // `svc 0` has four bytes.
    registers.pc = instruction - 4;
    Ok(())
}

/// The effect of the registers of x86_64 is tested when programs are redirected: tests/it/exec_server/nested.
#[cfg(all(test, target_arch = "aarch64"))]
mod tests {
    use super::{super::filter::INTERFACES, *};

    #[test]
    fn the_registers_say_execveat() {
        let mut registers = user_regs_struct { regs: [7; 31], sp: 8, pc: 9, pstate: 10 };
        prepare(&mut registers, &INTERFACES[0], 0x1004, [1, 2, 3, 4, 5]).unwrap();
        let user_regs_struct { regs, sp, pc, pstate } = registers;
        assert_eq!((&regs[..9], sp, pc, pstate), (&[1, 2, 3, 4, 5, 7, 7, 7, 281][..], 8, 0x1000, 10));
        assert!(regs[9..].iter().all(|register| *register == 7));
        assert!(prepare(&mut registers, &INTERFACES[1], 0x1004, [0; 5]).is_err(), "a program for 32-bit Arm");
    }
}
