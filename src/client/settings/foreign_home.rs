//! A config file in the home of another user, as after `su` without `-`, `sudo -E`, or in a container that runs as another user
//! than the one of its HOME.
//!
//! 1. Only a file that cannot be read is ignored, and only if the directory is not ours: a mistake in the permissions of an own
//!    file must not silently select the defaults.
use std::{
    io::{Error, ErrorKind},
    path::Path,
    sync::OnceLock,
};

/// The text about the file that this process ignores.
static IGNORED: OnceLock<String> = OnceLock::new();

/// Whether the error of the file in its default place counts as a missing file. `base` is the directory of all config files.
pub(super) fn ignore(path: &Path, base: &Path, error: &Error) -> bool {
    if error.kind() != ErrorKind::PermissionDenied || !belongs_to_another_user(base) {
        return false;
    }
    let (path, base) = (path.display(), base.display());
    let why = format!(
        "config file {path} is ignored: {error}, and {base} belongs to another user; correct HOME or XDG_CONFIG_HOME"
    );
    tracing::warn!("{why}");
    let _ = IGNORED.set(why);
    true
}

/// The first of these that can be seen decides: the directory, or one above it. In the home of another user, `.config` may be
/// missing, or be hidden.
#[cfg(unix)]
fn belongs_to_another_user(base: &Path) -> bool {
    use std::{fs::metadata, os::unix::fs::MetadataExt};
    let owner = base.ancestors().find_map(|directory| metadata(directory).ok()).map(|directory| directory.uid());
    owner.is_none_or(|owner| owner != rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
fn belongs_to_another_user(_base: &Path) -> bool {
    false
}

/// What a program that does not log prints: why a config file was ignored.
#[cfg(feature = "cli")]
pub(crate) fn ignored_config_file() -> Option<&'static str> {
    IGNORED.get().map(String::as_str)
}
