//! Variables by which programs load code, or settings that name code, from files and directories that they name.
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Variables that name such files or directories, each with the separators of its list. Options that name code,
/// such as those of NODE_OPTIONS, are not read.
const LISTS: [(&str, &[u8]); 18] = [
    ("BASH_ENV", b""),
    ("HOME", b""),
    ("LD_AUDIT", b": "),
    ("LD_LIBRARY_PATH", b":;"),
    ("LD_PRELOAD", b": "),
    ("NODE_PATH", b":"),
    ("PERL5LIB", b":"),
    ("PERLLIB", b":"),
    ("PYTHONHOME", b":"),
    ("PYTHONPATH", b":"),
    ("RUBYLIB", b":"),
    ("XDG_CACHE_HOME", b""),
    ("XDG_CONFIG_DIRS", b":"),
    ("XDG_CONFIG_HOME", b""),
    ("XDG_DATA_DIRS", b":"),
    ("XDG_DATA_HOME", b""),
    ("XDG_RUNTIME_DIR", b""),
    ("XDG_STATE_HOME", b""),
];
/// In these variables, a name without a slash is that of a library, which is found in the directories of the system.
const LIBRARIES: [&str; 2] = ["LD_AUDIT", "LD_PRELOAD"];

/// Directories below HOME that stand for a variable if it has no value.
const DEFAULTS: [(&str, &str); 2] = [("XDG_CONFIG_HOME", ".config"), ("XDG_DATA_HOME", ".local/share")];

/// The files and directories that these variables name, or that programs use without them, each with the name of its variable.
pub(crate) fn code_paths(variable: impl Fn(&str) -> Option<OsString>) -> Vec<(&'static str, PathBuf)> {
    let home = variable("HOME").filter(|home| !home.is_empty());
    let has_value = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let defaults = DEFAULTS.into_iter().filter(|(name, _)| !has_value(name));
    let defaults: Vec<_> = home
        .iter()
        .flat_map(|home| defaults.clone().map(|(name, below)| (name, Path::new(home).join(below))))
        .collect();
    let of_list = |(name, separators): (&'static str, &[u8])| {
        let value = variable(name).unwrap_or_default();
        let parts =
            value.as_bytes().split(|byte| separators.contains(byte)).map(|part| Path::new(OsStr::from_bytes(part)));
        let is_path = |part: &&Path| !LIBRARIES.contains(&name) || part.as_os_str().as_bytes().contains(&b'/');
        // An empty part of a list is the working directory; an empty value names nothing.
        let named = parts.filter(|_| !value.is_empty()).filter(is_path).map(|part| Path::new(".").join(part));
        named.map(|part| (name, part)).collect::<Vec<_>>()
    };
    LISTS.into_iter().flat_map(of_list).chain(defaults).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_list_is_a_path_and_an_empty_value_names_nothing() {
        let of = |variable: &str, value: &str| {
            let value = |name: &str| (name == variable).then(|| OsString::from(value));
            code_paths(value)
                .into_iter()
                .map(|(_, path)| path.into_os_string().into_string().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(of("LD_LIBRARY_PATH", "/opt/lib:lib;"), ["/opt/lib", "./lib", "./"]);
        assert_eq!(of("LD_LIBRARY_PATH", ""), [""; 0]);
        assert_eq!(of("LD_PRELOAD", "libjemalloc.so.2 ./own.so:/opt/x.so"), ["././own.so", "/opt/x.so"]);
        assert_eq!(of("BASH_ENV", "/home/me/a file:x"), ["/home/me/a file:x"]);
        assert_eq!(of("HOME", "/home/me:x"), ["/home/me:x", "/home/me:x/.config", "/home/me:x/.local/share"]);
        assert_eq!(of("XDG_DATA_DIRS", "/usr/share:/opt"), ["/usr/share", "/opt"]);
        assert_eq!(of("EDITOR", "/home/me"), [""; 0]);
    }
}
