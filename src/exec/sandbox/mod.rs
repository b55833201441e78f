//! The sandbox: a command can read every file and change only some. The kernel (Landlock) enforces it on the command and all
//! its child processes.
//!
//! `pausewatch exec-child` restricts itself and then executes the command, so no unsafe code runs between `fork` and `exec`.
//!
//! 1. Outside the writable roots no file can be written, created, truncated, renamed, linked or removed, by any path or link.
//!    Devices that store nothing (`/dev/null`, terminals) stay writable.
//! 2. Best effort: an old kernel enforces less, or nothing. [`Sandbox::probe`] returns what this kernel enforces, so that the
//!    result of a command can say it.
//! 3. The command gets no new privileges: set-user-id programs such as `sudo` do not work in it.
//! 4. It can neither send signals to processes outside the sandbox, nor connect to their abstract Unix sockets (Linux 6.12).
//!
//! Landlock does not restrict files that have a second name (hard link) below a writable root, reading, the network, Unix sockets with a path, or changes of a file's metadata: mode, owner, times, ACL, extended
//! attributes, and attributes of `chattr`.
mod enforcement;
#[cfg(feature = "cli")]
mod hard_links;
#[cfg(target_os = "linux")]
mod kernel;
mod resolved;

pub use enforcement::Enforcement;
use enforcement::{Missing, SandboxError};
#[cfg(feature = "cli")]
pub(crate) use hard_links::hard_links;
#[cfg(feature = "cli")]
pub(crate) use resolved::enter;

use std::path::PathBuf;

/// The paths that a command may write, besides devices that store nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    writable: Vec<PathBuf>,
}

impl Sandbox {
    /// Makes exactly these files and directories writable, with everything below the directories. Their paths must have no
    /// symbolic links: see `resolved`.
    pub fn new(writable: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { writable: writable.into_iter().collect() }
    }

    /// The directories for temporary files, which every sandboxed command of the exec server can write.
    pub fn temporary_directories() -> impl Iterator<Item = PathBuf> {
        let all = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/dev/shm".into()];
        all.into_iter().filter(|directory| directory.is_dir())
    }

    /// The writable roots.
    pub fn writable(&self) -> &[PathBuf] {
        &self.writable
    }

    /// Restricts the calling thread and everything that it starts from now on, permanently. Other threads of the process stay
    /// unrestricted.
    ///
    /// # Errors
    /// A root cannot be opened, or the kernel refuses: nothing is restricted.
    pub fn enforce(&self) -> Result<Enforcement, SandboxError> {
        #[cfg(target_os = "linux")]
        return kernel::enforce(&self.writable);
        #[cfg(not(target_os = "linux"))]
        Ok(Enforcement::None(Missing::NotImplemented))
    }

    /// How much this kernel enforces: a short-lived thread restricts itself to find out.
    pub fn probe() -> Enforcement {
        let probed = std::thread::spawn(|| Self::new([]).enforce()).join();
        match probed {
            Ok(Ok(enforcement)) => enforcement,
            Ok(Err(_)) | Err(_) => Enforcement::None(Missing::NotEnabled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_restricts_no_other_thread() {
        let enforcement = Sandbox::probe();
        assert_eq!(Sandbox::probe(), enforcement);
        let file = tempfile::NamedTempFile::new().expect("this thread can write");
        std::fs::write(file.path(), "still").expect("this thread can write");
    }
}
