//! The program that a thread in `execve` is about to execute, read from the memory of the thread and from `/proc`.
//!
//! The thread may belong to a hostile process, which can change its memory meanwhile. So everything that is read is
//! bounded, and the caller checks afterwards that the call still waits.
use super::{
    executable::{Executable, Executables},
    filter::Interface,
    notify::Call,
    own_files,
    status::process_of,
    streams::streams_of,
    view::View,
};
use crate::exec::policy::Stream;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
};
use std::{
    ffi::OsString,
    fs,
    io::{self, IoSliceMut},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
    rc::Rc,
};

/// The maximum size of argument texts and pointers together, in bytes. The kernel's own limit is 2 MiB with the
/// usual limit of the stack.
const MAX_BYTES: usize = 6 << 20;
const PAGE: u64 = 4096;
/// The number of bytes that are read at once.
const PART: usize = 1024;
/// The maximum size of a pointer.
const POINTER: usize = 8;

/// A program that a thread is about to execute: what is needed to decide whether a rule mentions it.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The path as it was given. If it is relative to a file descriptor, the path of that file descriptor comes first.
    pub(super) program: PathBuf,
    /// A path that leads this process to the same file while the call waits; `None`: `program` in the root directory of the thread.
    led: Option<PathBuf>,
    thread: i32,
    /// The first argument.
    pub(super) name: Option<OsString>,
    /// The executable; if its file has no name or cannot be read, it has the path as given and no interpreter.
    pub(super) executable: Rc<Executable>,
    /// For a script: the commands that its execution amounts to, each without the path and the arguments of the script.
    pub(super) interpreters: Vec<Vec<OsString>>,
    /// Why the kernel will not execute the file, as far as its type and mode show. `execvp` tries each directory of PATH, so most
    /// calls are for files that do not exist.
    pub(super) error: Option<Errno>,
}

/// Further properties, which are read only for questions.
#[derive(Debug)]
pub(super) struct Details {
    /// The process of the thread.
    pub(super) process: i32,
    pub(super) arguments: Vec<OsString>,
    /// The environment that the program is to get.
    pub(super) environment: Vec<OsString>,
    /// The working directory, opened: a path may lead elsewhere later.
    pub(super) directory: OwnedFd,
    pub(super) workdir: PathBuf,
    pub(super) streams: Vec<Stream>,
}

/// The addresses that the call passes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub(super) path: u64,
    pub(super) arguments: u64,
    pub(super) environment: u64,
    /// `execveat`: what the path is relative to.
    pub(super) directory: Option<i32>,
    pointer: usize,
}

impl Addresses {
    /// # Errors
    /// The call is of an interface that the filter does not let through.
    pub(super) fn of(call: &Call) -> io::Result<Self> {
        let interface = Interface::of(call.architecture).ok_or(Errno::NOSYS)?;
        let [first, second, third, fourth, ..] = call.arguments;
        let pointer = interface.pointer;
        Ok(match call.number == interface.execveat {
            false => Self { path: first, arguments: second, environment: third, directory: None, pointer },
            true => {
                let directory = Some(first as i32);
                Self { path: second, arguments: third, environment: fourth, directory, pointer }
            }
        })
    }
}

impl Waiting {
    /// # Errors
    /// EFAULT: an address is invalid. EPERM, EACCES: the supervisor may not read the process. Others: the process
    /// has ended.
    pub(super) fn read(
        call: &Call,
        addresses: &Addresses,
        executables: &mut Executables,
        view: &View,
    ) -> io::Result<Self> {
        let thread = call.thread;
        // One system call instead of two, for most programs.
        let (mut path, mut list) = ([0; PART], [0; POINTER]);
        let path = (addresses.path, &mut path[..first_part(addresses.path)]);
        let memory = Memory::with(thread, [path, (addresses.arguments, &mut list[..addresses.pointer])]);
        let given = PathBuf::from(OsString::from_vec(memory.text(addresses.path, &mut { MAX_BYTES })?));
        let name = memory.first_text(addresses.arguments, addresses.pointer)?;
        let directory = addresses.directory.filter(|number| *number >= 0 && !given.is_absolute());
        let is_directory_itself = given.as_os_str().is_empty() && directory.is_some();
        let (led, found) = Self::look_up(thread, directory, &given, executables, view);
        let program = match directory {
            Some(_) if is_directory_itself => fs::read_link(Self::start(thread, directory, false))?,
            Some(_) => fs::read_link(Self::start(thread, directory, false))?.join(given),
            None => given,
        };
        let (executable, error) = match found {
            Ok(found) => (found, None),
            // If the thread has another root directory, a link may have led us elsewhere.
            Err(error) => (None, Some(error).filter(|_| view.has_root_of(thread))),
        };
        let executable = executable.unwrap_or_else(|| {
            Rc::new(match error {
                Some(_) => Executable::none(&program),
                None => Executable::unknown(&Self::file_of(thread, led.as_deref(), &program), &program),
            })
        });
        let interpreters = executable.interpreters(|path| {
            let (led, found) = Self::look_up(thread, None, path, executables, view);
            let unknown = || Rc::new(Executable::unknown(&Self::file_of(thread, led.as_deref(), path), path));
            found.ok().map(|found| found.unwrap_or_else(unknown))
        });
        Ok(Self { program, led, thread, name, executable, interpreters, error })
    }

    /// The file that a path leads the thread to, and a path that leads this process there; `None`: `given` in the root directory of the thread.
    fn look_up(
        thread: i32,
        directory: Option<i32>,
        given: &Path,
        executables: &mut Executables,
        view: &View,
    ) -> (Option<PathBuf>, Result<Option<Rc<Executable>>, Errno>) {
        let is_absolute = given.is_absolute();
        let start = || Self::start(thread, directory, is_absolute);
        let is_directory_itself = given.as_os_str().is_empty() && directory.is_some();
        let mut led = match () {
            () if is_absolute && view.is_shared() => None,
            () if is_directory_itself => Some(start()),
            () => Some(start().join(given.strip_prefix("/").unwrap_or(given))),
        };
        let looked_up = led.as_deref().unwrap_or(given);
        let mut found = executables.look_up(looked_up);
        if !own_files::is_certain(given, looked_up, &found)
            && let Some(theirs) = own_files::leads_to(thread, &view.root_of(thread), &start(), given)
        {
            found = executables.look_up(&theirs);
            led = Some(theirs);
        }
        (led, found)
    }

    /// A path that leads this process to the same file while the call waits.
    pub(super) fn file(&self) -> PathBuf {
        Self::file_of(self.thread, self.led.as_deref(), &self.program)
    }

    fn file_of(thread: i32, led: Option<&Path>, program: &Path) -> PathBuf {
        let in_root = || Self::start(thread, None, true).join(program.strip_prefix("/").unwrap_or(program));
        led.map_or_else(in_root, Path::to_owned)
    }

    /// The directory in which the lookup of the path starts, as the thread sees it: its root directory may differ from
    /// ours.
    fn start(thread: i32, directory: Option<i32>, is_absolute: bool) -> PathBuf {
        PathBuf::from(match directory {
            Some(number) => format!("/proc/{thread}/fd/{number}"),
            None if is_absolute => format!("/proc/{thread}/root"),
            None => format!("/proc/{thread}/cwd"),
        })
    }
}

impl Details {
    /// # Errors
    /// As those of [`Waiting::read`]; or the process has changed its working directory meanwhile.
    pub(super) fn read(call: &Call, addresses: &Addresses) -> io::Result<Self> {
        let thread = call.thread;
        let (memory, pointer) = (Memory::of(thread), addresses.pointer);
        let arguments = memory.texts(addresses.arguments, pointer, &mut { MAX_BYTES })?;
        let environment = memory.texts(addresses.environment, pointer, &mut { MAX_BYTES }).unwrap_or_default();
        let cwd = format!("/proc/{thread}/cwd");
        let workdir = fs::read_link(&cwd)?;
        let directory = open(cwd, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        if fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))? != workdir {
            return Err(io::Error::other("its working directory has changed"));
        }
        let streams = streams_of(thread);
        Ok(Self { process: process_of(thread)?, arguments, environment, directory, workdir, streams })
    }
}

/// The address of the end of the path that a call passes, which is that of an empty text.
pub(super) fn empty_text(call: &Call, addresses: &Addresses) -> io::Result<u64> {
    let text = Memory::of(call.thread).text(addresses.path, &mut { MAX_BYTES })?;
    Ok(addresses.path + text.len() as u64)
}

struct Memory<'a> {
    thread: i32,
    /// Parts that were read before, with their addresses.
    known: [(u64, &'a [u8]); 2],
}

impl<'a> Memory<'a> {
    fn of(thread: i32) -> Self {
        Self { thread, known: [(0, &[]); 2] }
    }

    /// Reads these parts, each from an address, in one system call. Those that cannot be read whole are left out.
    fn with(thread: i32, [(first, first_bytes), (second, second_bytes)]: [(u64, &'a mut [u8]); 2]) -> Self {
        let base = |address| usize::try_from(address).unwrap_or(0);
        let remote = [
            RemoteIoVec { base: base(first), len: first_bytes.len() },
            RemoteIoVec { base: base(second), len: second_bytes.len() },
        ];
        let mut local = [IoSliceMut::new(first_bytes), IoSliceMut::new(second_bytes)];
        let read = process_vm_readv(nix::unistd::Pid::from_raw(thread), &mut local, &remote).unwrap_or(0);
        let mut memory = Self::of(thread);
        if read >= first_bytes.len() {
            memory.known[0] = (first, first_bytes);
        }
        if read == first_bytes.len() + second_bytes.len() {
            memory.known[1] = (second, second_bytes);
        }
        memory
    }

    /// The bytes at an address: as many as `buffer` holds, or fewer if the memory after them cannot be read. They
    /// may have been read before; then `buffer` is not used.
    fn bytes<'b>(&'b self, address: u64, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
        if let Some((_, known)) = self.known.iter().find(|(at, known)| (*at, known.len()) == (address, buffer.len())) {
            return Ok(known);
        }
        let base = usize::try_from(address).map_err(|_| Errno::FAULT)?;
        let remote = [RemoteIoVec { base, len: buffer.len() }];
        let thread = nix::unistd::Pid::from_raw(self.thread);
        let read = process_vm_readv(thread, &mut [IoSliceMut::new(buffer)], &remote)?;
        Ok(&buffer[..read])
    }

    /// A text up to its NUL. It is read up to the end of a page at a time, because the next page may not exist.
    fn text(&self, mut address: u64, left: &mut usize) -> io::Result<Vec<u8>> {
        let (mut text, mut buffer) = (Vec::new(), [0; PART]);
        loop {
            let bytes = self.bytes(address, &mut buffer[..first_part(address)])?;
            let end = bytes.iter().position(|byte| *byte == 0);
            let part = &bytes[..end.unwrap_or(bytes.len())];
            *left = left.checked_sub(part.len() + 1).ok_or(Errno::TOOBIG)?;
            text.extend_from_slice(part);
            address += bytes.len() as u64;
            match end {
                Some(_) => return Ok(text),
                None if bytes.is_empty() => return Err(Errno::FAULT.into()),
                None => {}
            }
        }
    }

    /// The first text of a list of pointers.
    fn first_text(&self, address: u64, pointer: usize) -> io::Result<Option<OsString>> {
        if address == 0 {
            return Ok(None);
        }
        match self.bytes(address, &mut [0; POINTER][..pointer])? {
            bytes if bytes.len() < pointer => Err(Errno::FAULT.into()),
            bytes => match pointer_in(bytes) {
                0 => Ok(None),
                text => Ok(Some(OsString::from_vec(self.text(text, &mut { MAX_BYTES })?))),
            },
        }
    }

    /// A list of pointers to texts, up to its null pointer. A null pointer instead of a list counts as an empty list.
    fn texts(&self, mut address: u64, pointer: usize, left: &mut usize) -> io::Result<Vec<OsString>> {
        let (mut texts, mut buffer) = (Vec::new(), [0; PART]);
        while address != 0 {
            let length = (to_end_of_page(address).min(PART) / pointer).max(1) * pointer;
            let bytes = self.bytes(address, &mut buffer[..length])?;
            if bytes.len() < pointer {
                return Err(Errno::FAULT.into());
            }
            for bytes in bytes.chunks_exact(pointer) {
                *left = left.checked_sub(pointer).ok_or(Errno::TOOBIG)?;
                match pointer_in(bytes) {
                    0 => return Ok(texts),
                    text => texts.push(OsString::from_vec(self.text(text, left)?)),
                }
            }
            address += (bytes.len() / pointer * pointer) as u64;
        }
        Ok(texts)
    }
}

/// The pointer, of 4 or 8 bytes.
fn pointer_in(bytes: &[u8]) -> u64 {
    let mut full = [0; POINTER];
    full[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(full)
}

/// The number of bytes of a text that are read first.
fn first_part(address: u64) -> usize {
    to_end_of_page(address).min(PART)
}

fn to_end_of_page(address: u64) -> usize {
    usize::try_from(PAGE - address % PAGE).expect("at most a page")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_from_the_memory_of_a_process() {
        let texts = [c"one", c"", c"three"];
        let long = std::ffi::CString::new(vec![b'x'; 10_000]).unwrap();
        let pointers = [texts[0].as_ptr(), texts[1].as_ptr(), long.as_ptr(), texts[2].as_ptr(), std::ptr::null()];
        let memory = Memory::of(rustix::process::getpid().as_raw_pid());
        let address = pointers.as_ptr().addr() as u64;
        let read = memory.texts(address, size_of::<usize>(), &mut { MAX_BYTES }).unwrap();
        let expected: Vec<OsString> = vec!["one".into(), "".into(), "x".repeat(10_000).into(), "three".into()];
        assert_eq!(read, expected);
        assert_eq!(memory.texts(0, 8, &mut { MAX_BYTES }).unwrap(), Vec::<OsString>::new());
        assert_eq!(memory.first_text(address, size_of::<usize>()).unwrap(), Some("one".into()));
        assert_eq!(memory.first_text(address + 4 * 8, 8).unwrap(), None, "an empty list");
        assert_eq!(memory.first_text(0, 8).unwrap(), None);
        let error = |result: io::Result<Vec<OsString>>| Errno::from_io_error(&result.unwrap_err()).unwrap();
        assert_eq!(error(memory.texts(address, 8, &mut { 9_000 })), Errno::TOOBIG);
        assert_eq!(error(memory.texts(8, 8, &mut { MAX_BYTES })), Errno::FAULT);
    }

    #[test]
    fn parts_that_cannot_be_read_together_are_read_one_by_one() {
        let (text, thread) = (c"text", rustix::process::getpid().as_raw_pid());
        let (address, pointers) = (text.as_ptr().addr() as u64, [text.as_ptr(), std::ptr::null()]);
        let list = pointers.as_ptr().addr() as u64;
        for (addresses, known) in [([address, list], [true, true]), ([address, 8], [true, false]), ([8, list], [false, false])] {
            let (mut path, mut pointer) = ([0; PART], [0; POINTER]);
            let path = (addresses[0], &mut path[..first_part(addresses[0])]);
            let memory = Memory::with(thread, [path, (addresses[1], &mut pointer)]);
            assert_eq!(memory.known.map(|(_, bytes)| !bytes.is_empty()), known);
            assert_eq!(memory.text(address, &mut { MAX_BYTES }).unwrap(), b"text");
            assert_eq!(memory.first_text(list, POINTER).unwrap(), Some("text".into()));
            assert_eq!(Errno::from_io_error(&memory.bytes(8, &mut [0; 8]).unwrap_err()), Some(Errno::FAULT));
        }
    }
}
