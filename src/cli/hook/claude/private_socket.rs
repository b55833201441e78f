//! The socket of the private coordinator of one Bash call: a name that the shell and its clock both know.
//!
//! 1. The shell knows the address before its clock listens there: the name consists of the session id and the shell's
//!    process id.
//! 2. The directory belongs to this user, and only this user can enter it.
use crate::client::Address;
use rustix::process::{Pid, getuid};
use std::{
    env, fs,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

/// The number of characters of the session id in the name: the path of a Unix socket has at most 107 bytes.
const SESSION_LENGTH: usize = 8;

/// The maximum length of the cache directory, which leaves enough for the rest of the path.
const MAX_CACHE: usize = 64;

/// Makes the directory of the sockets and returns it.
///
/// # Errors
/// The directory cannot be made, or another user can enter it.
pub(super) fn directory() -> Result<PathBuf, String> {
    let path = path_of_directory();
    let failed = |why: &dyn std::fmt::Display| format!("no private coordinator: directory {}: {why}", path.display());
    match fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(failed(&error)),
        _ => {}
    }
    let metadata = fs::symlink_metadata(&path).map_err(|error| failed(&error))?;
    match metadata.is_dir() && metadata.uid() == getuid().as_raw() && metadata.mode() & 0o077 == 0 {
        true => Ok(path),
        false => Err(failed(&"other users can enter it; remove it")),
    }
}

fn path_of_directory() -> PathBuf {
    path_among(|name| env::var_os(name).map(PathBuf::from), &format!("/run/user/{}", getuid().as_raw()))
}

/// The first of the places outside `/tmp`, where sandboxed commands can replace a socket, that exists.
fn path_among(variable: impl Fn(&str) -> Option<PathBuf>, runtime: &str) -> PathBuf {
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let bases =
        [variable("XDG_RUNTIME_DIR"), Some(runtime.into()), cache.filter(|path| path.as_os_str().len() <= MAX_CACHE)];
    match bases.into_iter().flatten().find(|path| path.is_absolute() && path.is_dir()) {
        Some(base) => base.join("pausewatch-claude"),
        None => PathBuf::from(format!("/tmp/pausewatch-claude-{}", getuid().as_raw())),
    }
}

/// The address for the shells of a session, as shell code: `$$` becomes the shell's process id.
pub(super) fn address_in_shell(directory: &Path, session_id: &str) -> Option<String> {
    let session: String =
        session_id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(SESSION_LENGTH).collect();
    let directory = directory.to_str().filter(|path| !path.contains(['"', '\\', '$', '`', '\n']))?;
    Some(format!("\"unix:{directory}/{session}.$$\""))
}

/// The path of the socket, if the address of the environment is that of this shell's private coordinator.
pub(super) fn of_shell(address: Option<&Address>, shell: Pid) -> Option<PathBuf> {
    let Some(Address::Unix(path)) = address else { return None };
    let is_ours = path.parent() == Some(&path_of_directory())
        && path.extension().is_some_and(|id| *id == *shell.as_raw_pid().to_string());
    is_ours.then(|| path.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_in_tmp_only_if_there_is_no_better_place() {
        let home = tempfile::tempdir().unwrap();
        let path_of = |names: &[(&str, &str)], runtime: &str| {
            let value = |name: &str| names.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
            path_among(value, runtime)
        };
        let home = home.path().to_str().unwrap();
        let no_cache = [("HOME", home), ("XDG_RUNTIME_DIR", "/none/such")];
        assert!(path_of(&no_cache, "/none/such").starts_with("/tmp"));
        fs::create_dir(Path::new(home).join(".cache")).unwrap();
        assert_eq!(path_of(&no_cache, "/none/such"), Path::new(home).join(".cache/pausewatch-claude"));
        assert_eq!(path_of(&no_cache, home), Path::new(home).join("pausewatch-claude"));
        let runtime = format!("{home}/.cache");
        let named = [("HOME", "/"), ("XDG_RUNTIME_DIR", &*runtime)];
        assert_eq!(path_of(&named, home), Path::new(&runtime).join("pausewatch-claude"));
        let long = format!("{home}/{}", "x".repeat(MAX_CACHE));
        fs::create_dir(&long).unwrap();
        assert!(path_of(&[("XDG_CACHE_HOME", &long)], "/none/such").starts_with("/tmp"));
    }
}
