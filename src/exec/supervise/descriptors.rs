//! The file descriptors of this process.
use std::{fs, os::fd::RawFd};

/// `/dev/fd` is missing in some containers.
const DIRECTORY: &str = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };

/// The numbers of all open file descriptors.
pub(crate) fn open_descriptors() -> Vec<RawFd> {
    let Ok(entries) = fs::read_dir(DIRECTORY) else { return vec![0, 1, 2] };
    let numbers: Vec<RawFd> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // Without that of the directory that was just read.
    numbers.into_iter().filter(|number| fs::symlink_metadata(format!("{DIRECTORY}/{number}")).is_ok()).collect()
}

/// Closes all file descriptors except standard input, output and error, so that commands do not inherit them. Call
/// it before this program opens any itself.
pub(crate) fn close_inherited() {
    open_descriptors().into_iter().filter(|number| *number > 2).for_each(|number| _ = nix::unistd::close(number));
}

/// Closes these file descriptors; standard input, output and error become `/dev/null`.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn replace_by_null(numbers: &[RawFd]) -> std::io::Result<()> {
    let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    numbers.iter().filter(|number| **number > 2).for_each(|number| _ = nix::unistd::close(*number));
    Ok(())
}
