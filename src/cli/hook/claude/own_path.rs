//! The path of this program for the settings and for the command line of a shell.
//!
//! The path is the one by which this process was started, not the target of its links: an upgrade may change that.
use crate::cli::executable::is_executable;
use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf, absolute},
};

/// The path, in quotes if the shell needs them.
///
/// # Errors
/// The path is unknown or not UTF-8.
pub(super) fn quoted() -> Result<String, String> {
    let path = find().ok_or("the path of pausewatch is unknown; call it by its absolute path")?;
    let text = path.to_str().ok_or_else(|| format!("the path {} is not UTF-8; move pausewatch", path.display()))?;
    Ok(quote(text))
}

fn find() -> Option<PathBuf> {
    let name = env::args_os().next()?;
    if name.as_encoded_bytes().contains(&b'/') {
        return absolute(Path::new(&name)).ok();
    }
    env::var_os("PATH").and_then(|path| in_path(&path, &name)).or_else(|| env::current_exe().ok())
}

fn in_path(path: &OsStr, name: &OsStr) -> Option<PathBuf> {
    let mut files = env::split_paths(path).map(|directory| directory.join(name));
    let found = files.find(|file| is_executable(file))?;
    absolute(found).ok()
}

fn quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%".contains(c);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    #[test]
    fn only_a_program_is_found_in_path() {
        let directory = tempfile::tempdir().unwrap();
        let [text, program] = ["text", "program"].map(|name| directory.path().join(name));
        for (place, mode) in [(&text, 0o644), (&program, 0o755)] {
            fs::create_dir(place).unwrap();
            fs::write(place.join("pausewatch"), "").unwrap();
            fs::set_permissions(place.join("pausewatch"), Permissions::from_mode(mode)).unwrap();
        }
        let path = env::join_paths([&text, &program]).unwrap();
        assert_eq!(in_path(&path, "pausewatch".as_ref()), Some(program.join("pausewatch")));
    }

    #[test]
    fn a_path_is_quoted_if_the_shell_would_split_it() {
        for (path, quoted) in [
            ("/usr/bin/pausewatch-0.1", "/usr/bin/pausewatch-0.1"),
            ("/a b/p", "'/a b/p'"),
            ("/it's/$p", r"'/it'\''s/$p'"),
        ] {
            assert_eq!(quote(path), quoted);
        }
    }
}
