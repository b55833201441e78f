//! A command that can read every file and change only some: Landlock, enforced by the kernel on the command and on all that it
//! starts.
//!
//! A process restricts itself and then becomes the command, so nobody needs unsafe code between `fork` and `exec`:
//! `pausewatch sandbox-exec --writable DIR -- PROGRAM` ([`Sandbox::arguments`]) does.
//!
//! 1. Outside the writable roots no file is written, made, cut, renamed, linked or removed, through whatever path or link.
//!    Devices that keep nothing (`/dev/null`, terminals) stay writable.
//! 2. Best effort: an old kernel enforces less, or nothing. [`Sandbox::probe`] tells beforehand what this one does, so that it
//!    can be said apart from the command's output.
//! 3. The command gets no new privileges: set-user-id programs such as `sudo` do not work in it.
//!
//! What Landlock leaves open: reading, the network, signals, and a file's mode, owner and times.
mod enforcement;
#[cfg(target_os = "linux")]
mod kernel;

pub use enforcement::Enforcement;
use enforcement::{Missing, SandboxError};

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// The name of the command that applies a sandbox and then becomes the program.
pub(crate) const SUBCOMMAND: &str = "sandbox-exec";

/// What may be written, besides devices that keep nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    writable: Vec<PathBuf>,
}

impl Sandbox {
    /// Exactly these files, and what is beneath these directories, can be written.
    pub fn new(writable: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { writable: writable.into_iter().collect() }
    }

    /// What a command in `workdir` needs to work: that directory, and those for temporary files. Without them hardly a
    /// compiler runs, and what is in them belongs to no one.
    pub fn for_workdir(workdir: &Path) -> Self {
        let mut writable = vec![workdir.to_owned()];
        for directory in Self::temporary_directories() {
            if !writable.contains(&directory) {
                writable.push(directory);
            }
        }
        Self { writable }
    }

    /// The directories for temporary files, which every command can write.
    pub fn temporary_directories() -> impl Iterator<Item = PathBuf> {
        let all = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/dev/shm".into()];
        all.into_iter().filter(|directory| directory.is_dir())
    }

    /// The writable roots.
    pub fn writable(&self) -> &[PathBuf] {
        &self.writable
    }

    /// The arguments with which this program runs `program` inside the sandbox.
    pub fn arguments<A: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Vec<OsString> {
        let mut all = vec![OsString::from(SUBCOMMAND)];
        for root in &self.writable {
            all.push("--writable".into());
            all.push(root.into());
        }
        all.push("--".into());
        all.push(program.as_ref().to_owned());
        all.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        all
    }

    /// Restricts the calling thread, and all that it starts from now on, for good. The caller has no other threads, or they
    /// stay free.
    ///
    /// # Errors
    /// A root that cannot be opened, or a kernel that refuses: nothing is restricted.
    pub fn enforce(&self) -> Result<Enforcement, SandboxError> {
        #[cfg(target_os = "linux")]
        return kernel::enforce(&self.writable);
        #[cfg(not(target_os = "linux"))]
        Ok(Enforcement::None(Missing::NotImplemented))
    }

    /// What this kernel would enforce, found out by a thread that restricts itself and ends.
    pub fn probe() -> Enforcement {
        let restricted = std::thread::spawn(|| Self::new([]).enforce()).join();
        match restricted {
            Ok(Ok(enforcement)) => enforcement,
            Ok(Err(_)) | Err(_) => Enforcement::None(Missing::NotEnabled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_passed_on_as_arguments() {
        let arguments = Sandbox::new(["/work".into(), "/tmp".into()]).arguments("bash", ["-c", "ls"]);
        assert_eq!(arguments.join(OsStr::new(" ")), "sandbox-exec --writable /work --writable /tmp -- bash -c ls");
    }

    #[test]
    fn a_probe_restricts_nobody_else() {
        let enforcement = Sandbox::probe();
        assert_eq!(Sandbox::probe(), enforcement);
        let file = tempfile::NamedTempFile::new().expect("this thread can write");
        std::fs::write(file.path(), "still").expect("this thread can write");
    }
}
