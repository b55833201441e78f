//! seccomp user notification (`man 2 seccomp_unotify`) behind a safe interface: most of the unsafe code of the library
//! (docs/decisions/0004-execs-judged-by-seccomp-notification.md).
//!
//! A thread with the filter that calls `execve` or `execveat` waits until the owner of the [`Listener`] answers. From Linux 5.19 on
//! only KILL interrupts its wait; on older kernels, any signal with a handler does.
#![expect(unsafe_code, reason = "neither rustix nor nix has seccomp(2) and its ioctls")]
use super::filter;
use libc::{c_ulong, seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp, seccomp_notif_sizes, sock_filter};
use rustix::{io::Errno, thread::set_no_new_privs};
use std::{
    io,
    mem::{size_of, zeroed},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};

/// A system call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    /// Unique per listener; invalid once the call has been answered or its thread has died.
    pub(super) id: u64,
    /// The thread, in the namespace of process ids of the owner of the listener.
    pub(super) thread: i32,
    pub(super) architecture: u32,
    pub(super) number: u32,
    /// The address of the instruction after the one that made the call.
    pub(super) instruction: u64,
    pub(super) arguments: [u64; 6],
}

/// Receives and answers the calls of all threads that have one filter.
#[derive(Debug)]
pub(super) struct Listener(OwnedFd);

impl Listener {
    /// From now on the calling thread, and all processes that it starts, wait for an answer before they execute a
    /// program. They get no new privileges.
    ///
    /// # Errors
    /// The kernel has no user notification (before 5.9), refuses it, or the process has a listener already (EBUSY): no filter is installed.
    pub(super) fn install() -> io::Result<Self> {
        check_sizes()?;
        set_no_new_privs(true)?;
        let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        let descriptor = match install(listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, filter::program()) {
            // Before 5.19.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => install(listener, filter::program())?,
            result => result?,
        };
        // SAFETY: the kernel has just returned this file descriptor, and nothing else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// The next call; `None` if its thread has died meanwhile. Blocks if no call waits.
    pub(super) fn receive(&self) -> io::Result<Option<Call>> {
        // SAFETY: a structure of integers, for which zero is valid. The kernel wants it zeroed.
        let mut notification: seccomp_notif = unsafe { zeroed() };
        // SAFETY: this request writes a `seccomp_notif`; `install` has checked its size.
        match unsafe { self.ioctl(libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notification) } {
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::INTR)) => Ok(None),
            Err(error) => Err(error),
            Ok(()) => {
                let seccomp_notif { id, pid, data, .. } = notification;
                let (thread, number) = (pid.cast_signed(), data.nr.cast_unsigned());
                let (architecture, instruction) = (data.arch, data.instruction_pointer);
                Ok(Some(Call { id, thread, architecture, number, instruction, arguments: data.args }))
            }
        }
    }

    /// Whether the call still waits. If so, everything that was read of its process before is about this call.
    pub(super) fn waits(&self, id: u64) -> bool {
        let mut id = id;
        // SAFETY: this request reads a `u64`.
        unsafe { self.ioctl(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw mut id) }.is_ok()
    }

    /// Lets the call continue. The kernel reads its arguments again, so another thread may have changed them meanwhile.
    pub(super) fn proceed(&self, id: u64) -> io::Result<()> {
        let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).expect("a small flag");
        self.answer(seccomp_notif_resp { id, val: 0, error: 0, flags })
    }

    /// Makes the call fail.
    pub(super) fn fail(&self, id: u64, errno: Errno) -> io::Result<()> {
        self.answer(seccomp_notif_resp { id, val: 0, error: -errno.raw_os_error(), flags: 0 })
    }

    fn answer(&self, mut response: seccomp_notif_resp) -> io::Result<()> {
        // SAFETY: this request reads a `seccomp_notif_resp`; `install` has checked its size.
        unsafe { self.ioctl(libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) }
    }

    /// Gives the process of a waiting call a copy of `fd` under the number `at`, replacing what was there.
    pub(super) fn add_fd(&self, id: u64, fd: BorrowedFd<'_>, at: RawFd, close_on_exec: bool) -> io::Result<()> {
        let number = |fd: RawFd| u32::try_from(fd).map_err(|_| io::Error::from(Errno::BADF));
        let flags = u32::try_from(libc::SECCOMP_ADDFD_FLAG_SETFD).expect("a small flag");
        let newfd_flags = if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 };
        let (srcfd, newfd) = (number(fd.as_raw_fd())?, number(at)?);
        let mut added = seccomp_notif_addfd { id, flags, srcfd, newfd, newfd_flags };
        // SAFETY: this request reads a `seccomp_notif_addfd`, whose size is part of the request's number.
        unsafe { self.ioctl(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut added) }
    }

    /// # Safety
    /// `data` is what the kernel reads or writes for `request`.
    unsafe fn ioctl<T>(&self, request: libc::Ioctl, data: *mut T) -> io::Result<()> {
        // SAFETY: `data` is valid for this request, by the contract of this function.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), request, data) } {
            result if result < 0 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// For a listener that another process has installed and sent.
impl From<OwnedFd> for Listener {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

/// Whether this kernel's structures are those that this program was compiled for.
fn check_sizes() -> io::Result<()> {
    let mut sizes = seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
    // SAFETY: this operation writes a `seccomp_notif_sizes`.
    unsafe { seccomp(libc::SECCOMP_GET_NOTIF_SIZES, 0, (&raw mut sizes).cast()) }?;
    let expected = (size_of::<seccomp_notif>(), size_of::<seccomp_notif_resp>());
    if (usize::from(sizes.seccomp_notif), usize::from(sizes.seccomp_notif_resp)) != expected {
        return Err(Errno::NOSYS.into());
    }
    Ok(())
}

/// From now on the calling thread, and all processes that it starts, have this filter too. They get no new privileges.
///
/// # Errors
/// The kernel refuses it: no filter is installed.
pub(super) fn restrict(filter: Vec<sock_filter>) -> io::Result<()> {
    set_no_new_privs(true)?;
    install(0, filter).map(drop)
}

fn install(flags: c_ulong, mut filter: Vec<sock_filter>) -> io::Result<RawFd> {
    let length = u16::try_from(filter.len()).expect("the filter is short");
    let mut program = libc::sock_fprog { len: length, filter: filter.as_mut_ptr() };
    // SAFETY: this operation reads the `sock_fprog` and the instructions that it points to, both of which live until it returns.
    unsafe { seccomp(libc::SECCOMP_SET_MODE_FILTER, flags, (&raw mut program).cast()) }
}

/// # Safety
/// `arguments` is what the kernel reads or writes for `operation`.
unsafe fn seccomp(operation: u32, flags: c_ulong, arguments: *mut libc::c_void) -> io::Result<RawFd> {
    debug_assert_ne!(arguments, ptr::null_mut());
    // SAFETY: by the contract of this function.
    match unsafe { libc::syscall(libc::SYS_seccomp, operation, flags, arguments) } {
        result if result < 0 => Err(io::Error::last_os_error()),
        result => RawFd::try_from(result).map_err(io::Error::other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        process::{Command, ExitStatus},
        sync::mpsc,
        thread,
    };

    /// Runs a command in a thread with a filter, and answers its execs. `None`: the kernel does not support it here.
    fn run(command: &str, mut answer: impl FnMut(&Listener, Call)) -> Option<io::Result<ExitStatus>> {
        let (send, listeners) = mpsc::channel();
        let command = command.to_owned();
        // The filter ends with the thread.
        let running = thread::spawn(move || {
            send.send(Listener::install()).expect("the test waits for it");
            Command::new("/bin/sh").args(["-c", &command]).status()
        });
        let listener = match listeners.recv().expect("the thread sends it") {
            Ok(listener) => listener,
            Err(error) => {
                let _ = running.join();
                return skipped(&error);
            }
        };
        while !running.is_finished() {
            // Without a filter it has nothing to receive; `poll` says so.
            let mut polled = [rustix::event::PollFd::new(&listener, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut polled, None).unwrap();
            if !polled[0].revents().contains(rustix::event::PollFlags::IN) {
                break;
            }
            if let Some(call) = listener.receive().unwrap() {
                assert!(listener.waits(call.id));
                answer(&listener, call);
                assert!(!listener.waits(call.id));
            }
        }
        Some(running.join().expect("the thread does not panic"))
    }

    fn skipped<T>(why: &io::Error) -> Option<T> {
        // Written directly to standard error, because the test runner hides the output of tests that pass.
        let _ = writeln!(io::stderr(), "skipped: seccomp-notify: {why}");
        let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        let lacks = std::env::var("PAUSEWATCH_CI_LACKS").unwrap_or_default();
        assert!(!is_ci || lacks.contains("seccomp-notify"), "CI lacks seccomp-notify: {why}");
        None
    }

    #[test]
    fn a_call_waits_until_it_is_answered() {
        let mut calls = 0;
        let ended = run("exec /bin/sh -c 'exit 7'", |listener, call| {
            calls += 1;
            assert_eq!(call.number, super::filter::INTERFACES[0].execve);
            listener.proceed(call.id).unwrap();
            assert!(listener.proceed(call.id).is_err(), "it is answered already");
        });
        let Some(ended) = ended else { return };
        assert_eq!((ended.unwrap().code(), calls), (Some(7), 2));
        let ended = run("exit 7", |listener, call| listener.fail(call.id, Errno::ACCESS).unwrap());
        assert_eq!(ended.unwrap().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_file_descriptor_is_added_under_its_number() {
        let (mut read, write) = io::pipe().unwrap();
        let ended = run("echo here >&9; echo gone >&8", |listener, call| {
            listener.add_fd(call.id, write.as_fd(), 9, false).unwrap();
            listener.add_fd(call.id, write.as_fd(), 8, true).unwrap();
            listener.proceed(call.id).unwrap();
        });
        drop(write);
        if ended.is_none() {
            return;
        }
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "here\n");
    }
}
