//! The program that really asks: named by a variable, or one of the usual ones.
//!
//! 1. It is never this program itself, whatever the name or link is.
use crate::cli::executable::is_executable;
use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Finds the program. `None`: the variable is not set, and none of `names` is in `PATH` or `directories`.
///
/// # Errors
/// The variable names no program, or this one.
pub(super) fn find(variable: &str, names: &[&str], directories: &[&str]) -> Result<Option<PathBuf>, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    if let Some(named) = env::var_os(variable).filter(|value| !value.is_empty()) {
        let shown = Path::new(&named).display();
        let found = match named.as_encoded_bytes().contains(&b'/') {
            true => Some(PathBuf::from(&named)).filter(|path| is_executable(path)),
            false => in_directories(&named, env::split_paths(&path)),
        };
        let found = found.ok_or_else(|| format!("{variable}={shown}: there is no such program"))?;
        return match is_this_program(&found) {
            true => Err(format!("{variable}={shown} is pausewatch itself: name the program that asks")),
            false => Ok(Some(found)),
        };
    }
    let all = || env::split_paths(&path).chain(directories.iter().map(PathBuf::from));
    Ok(names.iter().find_map(|name| in_directories(name.as_ref(), all())))
}

fn in_directories(name: &OsStr, directories: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let paths = directories.filter(|directory| directory.is_absolute()).map(|directory| directory.join(name));
    paths.into_iter().find(|path| is_executable(path) && !is_this_program(path))
}

fn is_this_program(path: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    let own = env::current_exe().ok();
    own.is_some_and(|own| identity(path).is_some_and(|file| Some(file) == identity(&own)))
}
