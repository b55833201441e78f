//! Variables by which programs load code, or settings that name code, from files and directories that they name.
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Variables that name such files or directories, each with the separators of its list.
const LISTS: [(&str, &[u8]); 36] = [
    ("AWKLIBPATH", b":"),
    ("AWKPATH", b":"),
    ("BASH_ENV", b""),
    ("BUNDLE_GEMFILE", b""),
    ("CLASSPATH", b":"),
    ("CURL_HOME", b""),
    ("ENV", b""),
    ("GCONV_PATH", b":"),
    ("GEM_HOME", b""),
    ("GEM_PATH", b":"),
    ("HOME", b""),
    ("LD_AUDIT", b": "),
    ("LD_LIBRARY_PATH", b":;"),
    ("LD_PRELOAD", b": "),
    ("LOCPATH", b":"),
    ("LUA_CPATH", b";"),
    ("LUA_PATH", b";"),
    ("NODE_PATH", b":"),
    ("OPENSSL_CONF", b""),
    ("OPENSSL_ENGINES", b""),
    ("OPENSSL_MODULES", b""),
    ("PERL5LIB", b":"),
    ("PERLLIB", b":"),
    ("PHPRC", b""),
    ("PYTHONHOME", b":"),
    ("PYTHONPATH", b":"),
    ("PYTHONPYCACHEPREFIX", b""),
    ("PYTHONUSERBASE", b""),
    ("RUBYLIB", b":"),
    ("XDG_CACHE_HOME", b""),
    ("XDG_CONFIG_DIRS", b":"),
    ("XDG_CONFIG_HOME", b""),
    ("XDG_DATA_DIRS", b":"),
    ("XDG_DATA_HOME", b""),
    ("XDG_RUNTIME_DIR", b""),
    ("XDG_STATE_HOME", b""),
];
/// Variables with options that name code, such as `--require /a/b.js`, `-r/a/b.rb` and `-javaagent:/a/b.jar`.
const OPTIONS: [&str; 7] =
    ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT", "TAR_OPTIONS", "_JAVA_OPTIONS"];
/// In the options of Node.js, a name without a slash is looked up in the working directory, too.
const NAMES_MODULES: &str = "NODE_OPTIONS";
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
    let of_options = |name: &'static str| {
        let value = variable(name).unwrap_or_default();
        paths_in_options(name, value.as_bytes()).into_iter().map(|path| (name, path)).collect::<Vec<_>>()
    };
    LISTS.into_iter().flat_map(of_list).chain(OPTIONS.into_iter().flat_map(of_options)).chain(defaults).collect()
}

/// The paths among options.
fn paths_in_options(name: &str, value: &[u8]) -> Vec<PathBuf> {
    let parts = value.split(|byte| byte.is_ascii_whitespace() || b"=:,@\"'".contains(byte));
    let path = |part: &[u8]| match part {
        // `-r/a/b.rb`
        [b'-', _, b'/', ..] => Some(part[2..].to_vec()),
        b"." | b".." => Some(part.to_vec()),
        _ if part.contains(&b'/') => Some(part.to_vec()),
        [] | [b'-', ..] => None,
        _ if name == NAMES_MODULES && !part.iter().all(u8::is_ascii_digit) => Some(part.to_vec()),
        _ => None,
    };
    parts.filter_map(path).map(|path| Path::new(".").join(OsStr::from_bytes(&path))).collect()
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

    #[test]
    fn options_name_code_in_many_forms() {
        for (variable, value, paths) in [
            ("NODE_OPTIONS", "--require /a/.pnp.cjs --max-old-space-size=4096", &["/a/.pnp.cjs"][..]),
            ("NODE_OPTIONS", "--require=./b.js --import \"c\"", &["././b.js", "./c"]),
            ("RUBYOPT", "-r/a/b.rb -W0 -rbundler/setup", &["/a/b.rb", "./-rbundler/setup"]),
            ("PERL5OPT", "-Mlib=/a -w", &["/a"]),
            ("PERL5OPT", "-Mlib=.", &["./."]),
            ("JAVA_TOOL_OPTIONS", "-Xmx1g -javaagent:/a/b.jar=/c", &["/a/b.jar", "/c"]),
            ("TAR_OPTIONS", "--owner=0", &[]),
        ] {
            let value = |name: &str| (name == variable).then(|| OsString::from(value));
            let found: Vec<_> = code_paths(value).into_iter().map(|(_, path)| path.display().to_string()).collect();
            assert_eq!(found, paths, "{variable}");
        }
    }
}
