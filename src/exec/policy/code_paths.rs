//! Variables by which programs load code from files and directories that they name.
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Variables that name such files or directories, each with the separators of its list. Options that name code,
/// such as those of NODE_OPTIONS, are not read.
const LISTS: [(&str, &[u8]); 10] = [
    ("BASH_ENV", b""),
    ("LD_AUDIT", b": "),
    ("LD_LIBRARY_PATH", b":;"),
    ("LD_PRELOAD", b": "),
    ("NODE_PATH", b":"),
    ("PERL5LIB", b":"),
    ("PERLLIB", b":"),
    ("PYTHONHOME", b":"),
    ("PYTHONPATH", b":"),
    ("RUBYLIB", b":"),
];
/// In these variables, a name without a slash is that of a library, which is found in the directories of the system.
const LIBRARIES: [&str; 2] = ["LD_AUDIT", "LD_PRELOAD"];

/// The files and directories that these variables name, each with the name of its variable.
pub(crate) fn code_paths(variable: impl Fn(&str) -> Option<OsString>) -> Vec<(&'static str, PathBuf)> {
    let of_list = |(name, separators): (&'static str, &[u8])| {
        let value = variable(name).unwrap_or_default();
        let parts =
            value.as_bytes().split(|byte| separators.contains(byte)).map(|part| Path::new(OsStr::from_bytes(part)));
        let is_path = |part: &&Path| !LIBRARIES.contains(&name) || part.as_os_str().as_bytes().contains(&b'/');
        // An empty part of a list is the working directory; an empty value names nothing.
        let named = parts.filter(|_| !value.is_empty()).filter(is_path).map(|part| Path::new(".").join(part));
        named.map(|part| (name, part)).collect::<Vec<_>>()
    };
    LISTS.into_iter().flat_map(of_list).collect()
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
        assert_eq!(of("HOME", "/home/me"), [""; 0]);
    }
}
