//! How much of a sandbox the kernel enforces, and errors.
use std::{fmt, io, path::PathBuf};

/// How much of a sandbox the kernel enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    /// All of it.
    Full,
    /// What concerns files: the kernel is too old for signals and abstract sockets.
    Files,
    /// A part of what concerns files.
    Partial,
    /// Nothing: the command can write every file that its user can write.
    None(Missing),
}

/// Why nothing is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The kernel has no Landlock: Linux before 5.13, built without it, or another system.
    NotImplemented,
    /// The kernel has Landlock but was started without it.
    NotEnabled,
}

impl Enforcement {
    /// Whether the kernel enforces anything.
    pub fn is_any(self) -> bool {
        !matches!(self, Self::None(_))
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "enforced",
            Self::Files => "enforced for files; this kernel cannot prevent signals to other programs (Linux 6.12 can)",
            Self::Partial => "enforced in part: this kernel cannot prevent truncating files (Linux 6.2 can)",
            Self::None(Missing::NotImplemented) => {
                "not enforced: this system has no Landlock (Linux 5.13 and later have)"
            }
            Self::None(Missing::NotEnabled) => {
                "not enforced: Landlock is disabled; add `landlock` to the kernel parameter lsm="
            }
        })
    }
}

/// Why a sandbox could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A writable root cannot be opened.
    #[error("cannot open the writable path {}: {cause}; name an existing file or directory", path.display())]
    Writable {
        /// The root.
        path: PathBuf,
        /// The error of the system.
        #[source]
        cause: io::Error,
    },
    /// The kernel refused, although it has Landlock.
    #[error("cannot restrict this process: {0}")]
    Refused(String),
}
