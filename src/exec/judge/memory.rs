//! The memory of our processes that start commands. A huge page for a few kilobytes would take megabytes, and time to
//! clear.
use std::{ffi::OsStr, process::Command};

/// The variable that tells a process of this program not to use huge pages. The process then disables them for itself
/// and for what it executes.
const NO_HUGE_PAGES: &str = "MIMALLOC_ALLOW_THP";

/// Makes a process of this program use no huge pages. It must call [`restore_huge_pages`] for the command if it has the option `--restore-huge-pages`.
pub(crate) fn save_memory(starter: &mut Command) {
    #[cfg(target_os = "linux")]
    if std::env::var_os(NO_HUGE_PAGES).is_none() && rustix::thread::transparent_huge_pages_are_disabled() == Ok(false) {
        starter.env(NO_HUGE_PAGES, "0").arg("--restore-huge-pages");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = starter;
}

/// Lets the command use huge pages, and this process as well.
pub(crate) fn restore_huge_pages(command: &mut Command) {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(false);
    command.env_remove(NO_HUGE_PAGES);
}

/// Whether the variable with this name is only for processes of this program.
pub(super) fn is_internal(variable: &OsStr) -> bool {
    variable == NO_HUGE_PAGES
}
