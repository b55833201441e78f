//! What a thread that waits in `execve` is about to execute: read from its memory and from `/proc`.
//!
//! The thread may belong to a hostile process, which can change its memory meanwhile. So all of it is bounded, and the
//! caller asks the listener afterwards whether the call still waits.
use super::{
    filter::{INTERFACES, Interface},
    notify::Call,
};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    process::Pid,
};
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, IoSliceMut, Read},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            ffi::OsStringExt,
            fs::{MetadataExt, PermissionsExt},
        },
    },
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The maximum of argument texts and pointers together: the kernel's own bound with the usual limit of the stack is 2 MiB.
const MAX_BYTES: usize = 6 << 20;
const PAGE: u64 = 4096;
/// The kernel reads so much of a script's first line.
const MAX_SCRIPT_LINE: usize = 256;

/// A program that a thread is about to execute.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The process of the thread.
    pub(super) process: i32,
    /// The path as it was given, or that of the file descriptor that it is relative to.
    pub(super) program: PathBuf,
    /// A path that leads this process to the same file while the call waits.
    pub(super) file: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) workdir: PathBuf,
    /// The file without symbolic links; the path as given if it has no name.
    pub(super) resolved: PathBuf,
    /// The program and the argument that the first line of a script names.
    pub(super) interpreter: Vec<OsString>,
    /// Why the kernel will not execute the file, as far as its type and mode show. `execvp` tries each directory of PATH, so most
    /// calls are for files that do not exist.
    pub(super) error: Option<Errno>,
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
        let is_its = |interface: &&Interface| interface.architecture == call.architecture;
        let interface = INTERFACES.iter().find(is_its).ok_or(Errno::NOSYS)?;
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
    /// EFAULT: an address is invalid. EPERM, EACCES: the process does not let itself be read. Others: it has ended.
    pub(super) fn read(call: &Call, addresses: &Addresses) -> io::Result<Self> {
        let thread = call.thread;
        let memory = Memory { thread };
        let mut left = MAX_BYTES;
        let given = PathBuf::from(OsString::from_vec(memory.text(addresses.path, &mut left)?));
        let workdir = fs::read_link(format!("/proc/{thread}/cwd"))?;
        let is_in_other_root = has_other_root(thread)?;
        let (program, file) = match addresses.directory {
            Some(number) if number >= 0 && given.is_relative() => {
                let link = PathBuf::from(format!("/proc/{thread}/fd/{number}"));
                let opened = fs::read_link(&link)?;
                match given.as_os_str().is_empty() {
                    true => (opened, link),
                    false => (opened.join(&given), link.join(&given)),
                }
            }
            _ if is_in_other_root => {
                let file = match given.strip_prefix("/") {
                    Ok(below) => Path::new(&format!("/proc/{thread}/root")).join(below),
                    Err(_) => Path::new(&format!("/proc/{thread}/cwd")).join(&given),
                };
                (given, file)
            }
            _ => {
                let file = workdir.join(&given);
                (given, file)
            }
        };
        let arguments = memory.texts(addresses.arguments, addresses.pointer, &mut left)?;
        let error = match fs::metadata(&file) {
            Ok(data) if data.is_file() && data.permissions().mode() & 0o111 != 0 => None,
            Ok(_) => Some(Errno::ACCESS),
            Err(error) => Some(Errno::from_io_error(&error).unwrap_or(Errno::ACCESS)),
        };
        let start = error.is_none().then(|| start_of(&file)).flatten();
        let resolved = start.as_ref().map(|(resolved, _)| resolved.clone());
        let resolved = resolved.or_else(|| fs::canonicalize(&file).ok()).unwrap_or_else(|| program.clone());
        let interpreter = start.and_then(|(_, start)| interpreter(&start)).unwrap_or_default();
        // In another root directory, a link may have led us elsewhere.
        let error = error.filter(|_| !is_in_other_root);
        Ok(Self { process: process_of(thread)?, program, file, arguments, workdir, resolved, interpreter, error })
    }

    /// The environment that it is to get.
    pub(super) fn environment(call: &Call, addresses: &Addresses) -> io::Result<Vec<OsString>> {
        Memory { thread: call.thread }.texts(addresses.environment, addresses.pointer, &mut { MAX_BYTES })
    }

    /// The working directory, opened: a path may lead elsewhere later.
    ///
    /// # Errors
    /// The process has changed its directory meanwhile, or has ended.
    pub(super) fn directory(&self, call: &Call) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(format!("/proc/{}/cwd", call.thread), flags, Mode::empty())?;
        match fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))? == self.workdir {
            true => Ok(directory),
            false => Err(io::Error::other("its working directory has changed")),
        }
    }
}

/// The device and inode of the root directory of a process.
fn root_of(process: &str) -> io::Result<(u64, u64)> {
    let root = fs::metadata(format!("/proc/{process}/root/"))?;
    Ok((root.dev(), root.ino()))
}

/// Whether the root directory of a thread is not ours, so that paths lead it elsewhere.
pub(super) fn has_other_root(thread: i32) -> io::Result<bool> {
    static OURS: OnceLock<(u64, u64)> = OnceLock::new();
    let ours = match OURS.get() {
        Some(ours) => *ours,
        None => *OURS.get_or_init(|| root_of("self").unwrap_or_default()),
    };
    Ok(root_of(&thread.to_string())? != ours)
}

/// The end of the path that a call passes: there is an empty text.
pub(super) fn empty_text(call: &Call, addresses: &Addresses) -> io::Result<u64> {
    let text = Memory { thread: call.thread }.text(addresses.path, &mut { MAX_BYTES })?;
    Ok(addresses.path + text.len() as u64)
}

struct Memory {
    thread: i32,
}

impl Memory {
    fn bytes(&self, address: u64, length: usize) -> io::Result<Vec<u8>> {
        let base = usize::try_from(address).map_err(|_| Errno::FAULT)?;
        let mut bytes = vec![0; length];
        let remote = [RemoteIoVec { base, len: length }];
        let thread = nix::unistd::Pid::from_raw(self.thread);
        let read = process_vm_readv(thread, &mut [IoSliceMut::new(&mut bytes)], &remote)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// A text up to its NUL. It is read up to the end of a page at a time, because the next page may not exist.
    fn text(&self, mut address: u64, left: &mut usize) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        loop {
            let bytes = self.bytes(address, to_end_of_page(address).min(1024))?;
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

    /// A list of pointers to texts, up to its null pointer. No list at all is an empty one.
    fn texts(&self, mut address: u64, pointer: usize, left: &mut usize) -> io::Result<Vec<OsString>> {
        let mut texts = Vec::new();
        while address != 0 {
            let length = (to_end_of_page(address) / pointer).clamp(1, 128) * pointer;
            let bytes = self.bytes(address, length)?;
            if bytes.len() < pointer {
                return Err(Errno::FAULT.into());
            }
            for bytes in bytes.chunks_exact(pointer) {
                let mut full = [0; 8];
                full[..pointer].copy_from_slice(bytes);
                *left = left.checked_sub(pointer).ok_or(Errno::TOOBIG)?;
                match u64::from_le_bytes(full) {
                    0 => return Ok(texts),
                    text => texts.push(OsString::from_vec(self.text(text, left)?)),
                }
            }
            address += (bytes.len() / pointer * pointer) as u64;
        }
        Ok(texts)
    }
}

fn to_end_of_page(address: u64) -> usize {
    usize::try_from(PAGE - address % PAGE).expect("at most a page")
}

/// The process of a thread.
fn process_of(thread: i32) -> io::Result<i32> {
    use rustix::process::{PidfdFlags, pidfd_open};
    // Only the first thread of a process has such a descriptor, and most execs are of it: quicker than to read the status.
    if Pid::from_raw(thread).is_some_and(|thread| pidfd_open(thread, PidfdFlags::empty()).is_ok()) {
        return Ok(thread);
    }
    status_field(thread, "Tgid:").and_then(|text| text.parse().ok()).ok_or_else(|| Errno::SRCH.into())
}

/// A field of `/proc/PID/status`.
pub(super) fn status_field(thread: i32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
}

/// The path without symbolic links and the first bytes of a file; `None`: it cannot be read.
fn start_of(file: &Path) -> Option<(PathBuf, Vec<u8>)> {
    // Should it not be a regular file any more, opening it must not block.
    let opened = open(file, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let resolved = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok()?;
    let mut start = vec![0; MAX_SCRIPT_LINE];
    let length = File::from(opened).read(&mut start).ok()?;
    start.truncate(length);
    Some((resolved, start))
}

/// The program and its argument of a `#!` line.
fn interpreter(start: &[u8]) -> Option<Vec<OsString>> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii();
    // The kernel splits once: all that follows the program is one argument.
    let program = line.split(u8::is_ascii_whitespace).next().filter(|program| !program.is_empty())?;
    let argument = line[program.len()..].trim_ascii_start();
    let words = [program, argument].into_iter().filter(|word| !word.is_empty());
    Some(words.map(|word| OsString::from_vec(word.to_vec())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_of_a_script_is_what_its_first_line_names() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("script");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            let (resolved, start) = start_of(&file).unwrap();
            assert_eq!(resolved, file.canonicalize().unwrap());
            interpreter(&start).map(|words| words.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>())
        };
        assert_eq!(read("#!/bin/sh\nrm x\n"), Some(vec!["/bin/sh".to_owned()]));
        assert_eq!(read("#! /usr/bin/env -S a b \n"), Some(vec!["/usr/bin/env".to_owned(), "-S a b".to_owned()]));
        assert_eq!(read("#!"), None);
        assert_eq!(read("rm x"), None);
        assert_eq!(start_of(directory.path()), None, "a directory");
    }

    #[test]
    fn texts_are_read_from_the_memory_of_a_process() {
        let texts = [c"one", c"", c"three"];
        let long = std::ffi::CString::new(vec![b'x'; 10_000]).unwrap();
        let pointers = [texts[0].as_ptr(), texts[1].as_ptr(), long.as_ptr(), texts[2].as_ptr(), std::ptr::null()];
        let memory = Memory { thread: rustix::process::getpid().as_raw_pid() };
        let address = pointers.as_ptr().addr() as u64;
        let read = memory.texts(address, size_of::<usize>(), &mut { MAX_BYTES }).unwrap();
        let expected: Vec<OsString> = vec!["one".into(), "".into(), "x".repeat(10_000).into(), "three".into()];
        assert_eq!(read, expected);
        assert_eq!(memory.texts(0, 8, &mut { MAX_BYTES }).unwrap(), Vec::<OsString>::new());
        let error = |result: io::Result<Vec<OsString>>| Errno::from_io_error(&result.unwrap_err()).unwrap();
        assert_eq!(error(memory.texts(address, 8, &mut { 9_000 })), Errno::TOOBIG);
        assert_eq!(error(memory.texts(8, 8, &mut { MAX_BYTES })), Errno::FAULT);
    }
}
