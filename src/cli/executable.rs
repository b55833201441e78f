//! Programs in the directories of PATH.
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

/// Whether `path` is a file that somebody may execute.
pub(super) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
